"""How often to measure: so that measuring takes at most a share of the training's time."""

from __future__ import annotations

import math
import statistics
from collections import deque

from midstep.core.errors import ConfigError

__all__ = ["MetricInterval"]

_REMEMBERED = 9
_MARGIN = 0.6
"""Of the share that is used; the rest is for what no clock of ours can see."""
_ASKED_S = 6e-6
"""What it takes to time a step that is not measured, about, code and data out of the caches as they
are then; that counts, too."""
_TIMING = 0.5
"""Of the share that timing may take; where steps are too short for that, not each is timed."""
_LEAST = 0.1
"""Of the share that measuring gets, where being asked alone takes most of it."""
_SURE_AFTER = 3
"""Costs that are known before a long wait is trusted: the first ones hold what happens once."""
_WAIT_BEFORE = 16
"""Steps between two measurements until then, at most."""
_LOOK_AGAIN = 8
"""Times of steps after which k is chosen anew, as they may have become longer."""


class MetricInterval:
    """Every k-th step is measured; k follows from what measuring and a step take.

    Args:
        share: of the steps' time that measuring may take.
        every: a fixed k instead.

    >>> pace = MetricInterval(share=0.01)
    >>> for _ in range(3):
    ...     pace.measured(cost_s=0.001)
    >>> pace.stepped(0.02)
    >>> pace.every
    9
    """

    def __init__(self, *, share: float = 0.01, every: int | None = None) -> None:
        if not 0 < share <= 1 or (every is not None and every < 1):
            raise ConfigError(f"share lies in (0, 1], every is at least 1; got {share}, {every}")
        self._share, self._fixed = share, every
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)
        self._steps: deque[float] = deque(maxlen=_REMEMBERED)
        self._unlooked = 0
        self._every = every or 1
        self.timed_every = 1
        """Every how many steps are timed."""

    @property
    def every(self) -> int:
        """k, as it stands."""
        return self._every

    @property
    def usual_s(self) -> float | None:
        """What a step takes that is not measured; None before the first."""
        return statistics.median(self._steps) if self._steps else None

    def stepped(self, seconds: float) -> None:
        """A step that was not measured took so long."""
        self._steps.append(seconds)
        self._unlooked -= 1
        if self._unlooked < 0:
            self._choose()

    def measured(self, cost_s: float) -> None:
        """Measuring one step took so long, what it left behind for the next one included."""
        self._costs.append(cost_s)
        self._choose()

    def _choose(self) -> None:
        self._unlooked = _LOOK_AGAIN
        if self._fixed is not None or not self._costs:
            return
        step_s = self.usual_s or 0.0
        if step_s <= 0:
            self._every, self._unlooked = 2, 0  # until a bare step was seen
        else:
            allowed_s = self._share * step_s
            self.timed_every = max(1, math.ceil(_ASKED_S / (_TIMING * allowed_s)))
            asked_s = _ASKED_S / self.timed_every
            left_s = max(_MARGIN * allowed_s - asked_s, _LEAST * allowed_s)
            self._every = max(1, math.ceil(statistics.median(self._costs) / left_s))
        if len(self._costs) < _SURE_AFTER:
            self._every = min(self._every, _WAIT_BEFORE)
