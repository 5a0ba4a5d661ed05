"""How much time hooks may take in steps that nobody is certain to look at."""

from __future__ import annotations

import statistics
from collections import deque

__all__ = ["Budget"]

SHARE = 0.05
"""Hooks that take less of a step than this run in every step while somebody watches."""
REMEMBERED = 16


class Budget:
    """Compares what hooks took with what steps take without them. Medians: a pause is no step.

    >>> budget = Budget()
    >>> for now in (0.0, 1.0, 2.0):
    ...     budget.step_begins(now)
    ...     budget.spend(0.5)
    >>> budget.is_kept
    False
    """

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=REMEMBERED)
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self._began: float | None = None
        self._spent = 0.0
        self.is_kept = True
        """Whether hooks have been cheap so far."""

    def spend(self, seconds: float) -> None:
        """Hooks took this long in the step in progress."""
        self._spent += seconds

    def step_begins(self, now: float) -> None:
        """The last step is over."""
        if self._began is not None:
            self._steps.append(max(0.0, now - self._began - self._spent))
        if self._spent:
            self._costs.append(self._spent)
        self._began, self._spent = now, 0.0
        if self._steps and self._costs:
            allowed = SHARE * statistics.median(self._steps)
            self.is_kept = statistics.median(self._costs) <= allowed
