"""Somebody who looks."""

from __future__ import annotations

from types import TracebackType

from midstep.control.shared import Shared

__all__ = ["Viewer"]


class Viewer:
    """Somebody looks: captures are made while at least one viewer is open.

    Made by `DebugController.viewer`; a context manager.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared: Shared | None = shared
        self._count(shared, +1)

    @staticmethod
    def _count(shared: Shared, by: int) -> None:
        with shared.lock:
            shared.viewers += by
            shared.refresh_flags()

    def close(self) -> None:
        """Look away; closing twice is fine."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._count(shared, -1)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
