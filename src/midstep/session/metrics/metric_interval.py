"""How often to measure, so that measuring takes at most a share of the training time."""

from __future__ import annotations

import math
import statistics
from collections import deque

from midstep.core.errors import ConfigError

_HISTORY = 9
"""Costs and times of steps whose medians are used."""
_USED_SHARE = 0.6
"""Part of the allowed share that is used; the rest is for costs that no timer sees."""
_TIMING_S = 6e-6
"""About the cost of timing a step that is not measured, with code and data out of the caches."""
_TIMING_SHARE = 0.5
"""Part of the allowed share that timing may take; shorter steps are not all timed."""
_LEAST_SHARE = 0.1
"""Part of the allowed share that measuring gets at least, where timing takes most of it."""
_TRUSTED_COSTS = 3
"""Costs that must be known before k may be large: the first ones include one-time work."""
_FIRST_MAX = 16
"""Limit of k until then."""
_CHOOSE_EVERY = 8
"""Times of steps after which k is chosen again, because steps may have become longer."""


class MetricInterval:
    """Chooses k, so that measuring every k-th step takes at most a share of the time.

    Args:
        share: of the training time that measuring may take.
        every: a fixed k instead.

    >>> interval = MetricInterval(share=0.01)
    >>> for _ in range(3):
    ...     interval.add_cost(0.001)
    >>> interval.add_step(0.02)
    >>> interval.every
    9
    """

    def __init__(self, *, share: float = 0.01, every: int | None = None) -> None:
        if not 0 < share <= 1 or (every is not None and every < 1):
            raise ConfigError(
                f"share must be above 0 and at most 1, every at least 1; got {share} and {every}"
            )
        self._share, self._fixed = share, every
        self._costs: deque[float] = deque(maxlen=_HISTORY)
        self._steps: deque[float] = deque(maxlen=_HISTORY)
        self._until_choice = 0
        self._every = every or 1
        self.timed_every = 1
        """Every so many steps one is timed."""

    @property
    def every(self) -> int:
        """The present k."""
        return self._every

    @property
    def usual_s(self) -> float | None:
        """Median time of a step that is not measured; None before the first."""
        return statistics.median(self._steps) if self._steps else None

    def add_step(self, seconds: float) -> None:
        """Add the time of a step that was not measured."""
        self._steps.append(seconds)
        self._until_choice -= 1
        if self._until_choice < 0:
            self._choose()

    def add_cost(self, cost_s: float) -> None:
        """Add what measuring one step cost, including what the next step lost."""
        self._costs.append(cost_s)
        self._choose()

    def _choose(self) -> None:
        self._until_choice = _CHOOSE_EVERY
        if self._fixed is not None or not self._costs:
            return
        step_s = self.usual_s or 0.0
        if step_s <= 0:
            self._every, self._until_choice = 2, 0  # until a step without measuring was timed
        else:
            allowed_s = self._share * step_s
            self.timed_every = max(1, math.ceil(_TIMING_S / (_TIMING_SHARE * allowed_s)))
            timing_s = _TIMING_S / self.timed_every
            left_s = max(_USED_SHARE * allowed_s - timing_s, _LEAST_SHARE * allowed_s)
            self._every = max(1, math.ceil(statistics.median(self._costs) / left_s))
        if len(self._costs) < _TRUSTED_COSTS:
            self._every = min(self._every, _FIRST_MAX)
