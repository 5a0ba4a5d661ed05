"""Keeps what is computed for viewers of a running training within a share of its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 0.02


class WorkBudget:
    """Says when the same work may be done again, by what it took the last time.

    Args:
        is_free: whether the work may be done in any case.
        clock: monotonic seconds.
        work_clock: seconds that this thread has worked; those of other processes do not count.

    >>> seconds = iter([1.0, 1.5, 2.0, 10.0, 40.0])
    >>> budget = WorkBudget(lambda: False, lambda: next(seconds), lambda: next(seconds))
    >>> with budget.spend():  # from 1.0 to 1.5, and it ends at 2.0
    ...     pass
    >>> budget.is_spent(), budget.is_spent()
    (True, False)
    """

    def __init__(
        self,
        is_free: Callable[[], bool],
        clock: Callable[[], float] = time.perf_counter,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._is_free, self._clock, self._work_clock = is_free, clock, work_clock
        self._ended_at = float("-inf")
        self.cost_s = 0.0
        """What the work took the last time."""

    def is_spent(self) -> bool:
        """Whether the work would take more than its share of the time since the last one."""
        is_soon = self._clock() - self._ended_at < self.cost_s / SHARE
        return is_soon and not self._is_free()

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Measure the work of the block."""
        began = self._work_clock()
        try:
            yield
        finally:
            self.cost_s = self._work_clock() - began
            self._ended_at = self._clock()
