"""Mean and spread of the last n numbers, in constant time a step."""

from __future__ import annotations

import math
from collections import deque

LARGEST = 1e150
"""Values count as at most this: the squares of larger ones are beyond all floats."""
MAX_CANCELLATION = 1e6
"""Sums are renewed once a difference of squares has lost this factor to rounding."""


class RollingSpread:
    """Sums over a sliding window, shifted by its first value and renewed now and then.

    The shift keeps the squares small. The renewal, once a window and whenever an outlier has left
    it, keeps rounding from piling up.

    >>> spread = RollingSpread(3)
    >>> for value in (1.0, 2.0, 3.0, 4.0):
    ...     spread.push(value)
    >>> spread.mean, round(spread.std, 4)
    (3.0, 0.8165)
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._values: deque[float] = deque()
        self._shift = self._sum = self._squares = 0.0
        self._until_renewal = window

    def __len__(self) -> int:
        return len(self._values)

    def push(self, value: float) -> None:
        """Take in a finite number; the oldest leaves when the window is full."""
        value = min(max(value, -LARGEST), LARGEST)
        self._values.append(value)
        self._add(value, sign=1)
        left = self._shift
        if len(self._values) > self.window:
            left = self._values.popleft()
            self._add(left, sign=-1)
        self._until_renewal -= 1
        if self._until_renewal <= 0 or len(self._values) == 1 or self._has_lost_precision(left):
            self._renew()

    def _add(self, value: float, *, sign: int) -> None:
        shifted = value - self._shift
        self._sum += sign * shifted
        self._squares += sign * shifted * shifted

    def _has_lost_precision(self, left: float) -> bool:
        """Whether what left, or a shift far from all that is there, has eaten the digits."""
        gone, count = left - self._shift, len(self._values)
        mean, square = self._sum / count, self._squares / count
        variance = max(0.0, square - mean * mean)
        return (
            gone * gone > MAX_CANCELLATION * self._squares or square > MAX_CANCELLATION * variance
        )

    def _renew(self) -> None:
        self._shift = self._values[0]
        shifted = [value - self._shift for value in self._values]
        self._sum = math.fsum(shifted)
        self._squares = math.fsum(value * value for value in shifted)
        self._until_renewal = self.window

    @property
    def mean(self) -> float:
        """Mean of the window; 0 when empty."""
        return self._shift + self._sum / len(self._values) if self._values else 0.0

    @property
    def std(self) -> float:
        """Population standard deviation of the window; 0 when empty."""
        count = len(self._values)
        if not count:
            return 0.0
        return math.sqrt(max(0.0, self._squares / count - (self._sum / count) ** 2))
