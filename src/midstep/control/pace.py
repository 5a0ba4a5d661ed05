"""How fast a loop goes, measured by who looks, at no cost to the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Pace", "PaceView"]

SPAN_S = 5.0
LEAST_S = 0.2


@dataclass(frozen=True, kw_only=True)
class PaceView:
    """The pace at one look."""

    steps_per_s: float | None
    """Over the last few seconds of movement; None before two looks."""
    boundary_age_s: float
    """Seconds since the step count was last seen to change; 0 while it stands on purpose."""


class Pace:
    """Looks are samples of (time, step); the loop itself notes nothing.

    >>> now = iter([0.0, 1.0])
    >>> pace = Pace(lambda: next(now))
    >>> _ = pace.look(0, moving=True)
    >>> pace.look(50, moving=True).steps_per_s
    50.0
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque()
        self._changed_at: float | None = None
        self._last_step: int | None = None
        self._rate: float | None = None

    def look(self, step: int, *, moving: bool) -> PaceView:
        """Note that `step` is reached now; standing on purpose does not count against the pace."""
        now = self._clock()
        if step != self._last_step or not moving or self._changed_at is None:
            self._last_step, self._changed_at = step, now
        if moving:
            self._measure(now, step)
        else:
            self._looks.clear()
        return PaceView(steps_per_s=self._rate, boundary_age_s=now - self._changed_at)

    def _measure(self, now: float, step: int) -> None:
        while self._looks and (now - self._looks[0][0] > SPAN_S or step < self._looks[0][1]):
            self._looks.popleft()
        if self._looks and now - self._looks[0][0] >= LEAST_S:
            since, first = self._looks[0]
            self._rate = (step - first) / (now - since)
        if not self._looks or now - self._looks[-1][0] >= LEAST_S:
            self._looks.append((now, step))
