"""Runs: the one writer of a run directory, and what a loop needs of it."""

from midstep.session.run import OnError, Run

__all__ = ["OnError", "Run"]
