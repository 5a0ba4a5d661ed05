"""Signals around a block; a session's own `fit` hears them in the same way."""

from midstep.session.signals import GracefulStop, stop_at_signals

__all__ = ["GracefulStop", "stop_at_signals"]
