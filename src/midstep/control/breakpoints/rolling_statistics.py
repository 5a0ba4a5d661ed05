"""Mean and standard deviation of the last n numbers, in constant time a step."""

from __future__ import annotations

import math
from collections import Counter, deque

LARGEST = 1e150
"""Larger values are clipped to this, because their squares would overflow."""
MAX_CANCELLATION = 1e6
"""Sums are computed again when cancellation has cost this factor of precision."""


class RollingSpread:
    """Sums over a sliding window, shifted by one of its values.

    The shift keeps the squares small. The sums are computed again once per window, and when an
    outlier has left it, so that rounding errors do not accumulate.

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
        """Add a finite number; the oldest one leaves when the window is full."""
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
        """Whether a large value that left, or a shift far from the mean, has cost precision."""
        # Var = E[x²] - E[x]² of shifted values loses the factor E[x²] / Var to cancellation.
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


class UsualBatch:
    """Notices a batch that is smaller than usual, such as the last one of an epoch.

    A size is usual if more than half of the last 64 batches have it, so that a loader whose batches
    always differ in size has no small ones.

    >>> usual = UsualBatch()
    >>> [usual.is_smaller(samples) for samples in (128, 128, 128, 3, 128)]
    [False, False, False, True, False]
    """

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=64)
        self._counts: Counter[int] = Counter()

    def is_smaller(self, samples: int) -> bool:
        """Whether a batch of so many samples is smaller than usual; 0 for an unknown number."""
        if not samples:
            return False
        if len(self._sizes) == self._sizes.maxlen:
            self._counts[self._sizes[0]] -= 1
        self._sizes.append(samples)
        self._counts[samples] += 1
        if self._counts[samples] * 2 > len(self._sizes):  # nearly always
            return False
        usual, count = self._counts.most_common(1)[0]
        return count * 2 > len(self._sizes) and samples < usual
