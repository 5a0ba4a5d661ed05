"""How often to measure: so that measuring takes at most a share of the training's time."""

from __future__ import annotations

import math
import statistics
from collections import deque

from midstep.core.errors import ConfigError

__all__ = ["MetricPace"]

_REMEMBERED = 9
_UNSEEN = 2.0
"""Measuring costs about twice what its stopwatch sees: hooked modules are called more slowly, and
the copies of the weights empty the caches for whatever comes next."""
_SURE_AFTER = 3
"""Costs that are known before a long wait is trusted: the first ones hold what happens once."""
_WAIT_BEFORE = 16
"""Steps between two measurements until then, at most."""


class MetricPace:
    """Every k-th step is measured; k follows from what measuring and a step take.

    Args:
        share: of the steps' time that measuring may take.
        every: a fixed k instead.

    >>> pace = MetricPace(share=0.01)
    >>> for _ in range(3):
    ...     pace.measured(cost_s=0.001)
    >>> pace.stepped(0.02)
    >>> pace.every
    10
    """

    def __init__(self, *, share: float = 0.01, every: int | None = None) -> None:
        if not 0 < share <= 1 or (every is not None and every < 1):
            raise ConfigError(f"share lies in (0, 1], every is at least 1; got {share}, {every}")
        self._share, self._fixed = share, every
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)
        self._steps: deque[float] = deque(maxlen=_REMEMBERED)
        self._since = 0
        self._every = every or 1

    @property
    def every(self) -> int:
        """k, as it stands."""
        return self._every

    def due(self) -> bool:
        """A step begins: whether it is one to be measured. The first one is."""
        self._since -= 1
        if self._since > 0:
            return False
        self._since = self._every
        return True

    def stepped(self, seconds: float) -> None:
        """A step that was not measured took so long."""
        self._steps.append(seconds)
        if len(self._steps) == 1:
            self._choose()

    def measured(self, cost_s: float) -> None:
        """Measuring one step took so long."""
        self._costs.append(cost_s)
        self._choose()

    def _choose(self) -> None:
        if self._fixed is not None or not self._costs:
            return
        step_s = statistics.median(self._steps) if self._steps else 0.0
        if step_s <= 0:
            self._every = 2  # until a bare step was seen
        else:
            cost_s = _UNSEEN * statistics.median(self._costs)
            self._every = max(1, math.ceil(cost_s / (self._share * step_s)))
        if len(self._costs) < _SURE_AFTER:
            self._every = min(self._every, _WAIT_BEFORE)
        self._since = min(self._since, self._every)
