"""How often the stream may speak: at once after a silence, ten times a second in the long run."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["FrameBudget"]


class FrameBudget:
    """A bucket of frames: a click is answered at once, a fast loop is coalesced.

    >>> budget = FrameBudget(per_s=10, burst=1, clock=lambda: 0.0)
    >>> budget.spend()
    >>> budget.wait_s()
    0.1

    Args:
        per_s: frames a second in the long run.
        burst: frames that may follow each other at once.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, per_s: float = 10.0, burst: int = 10, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left, self._at = float(burst), clock()

    def spend(self) -> None:
        """A frame was sent."""
        self._refill()
        self._left -= 1.0

    def wait_s(self) -> float:
        """Seconds until the next one may be sent."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._per_s)

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) * self._per_s)
        self._at = now
