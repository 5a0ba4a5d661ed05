"""A permutation of [0, n) that is computed, not stored: an alternating Feistel network.

A position is split into a row and a column of a grid just large enough for n cells. Each round adds
a hash of one half to the other, modulo that half's size; this is a bijection whatever the hash. The
fewer than √n cells beyond n are walked through until one below n is reached (Black and Rogaway,
"Ciphers with Arbitrary Finite Domains", 2002), which keeps it a bijection of [0, n).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from midstep.core.streams import RandomStream

    Words = NDArray[np.uint64]

__all__ = ["Feistel"]

_ROUNDS = 8
"""Four are enough in theory with a good hash; eight cost little and leave no doubt."""

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Feistel:
    """A keyed permutation of [0, n) and its inverse, on arrays of positions.

    >>> from midstep.core.streams import RandomStream
    >>> sorted(Feistel(5, RandomStream(0, "order")).forward(np.arange(5, dtype=np.uint64)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, n: int, stream: RandomStream) -> None:
        self.n = np.uint64(n)
        rows = max(1, math.isqrt(max(0, n - 1)) + 1)
        self._rows = np.uint64(rows)
        self._columns = np.uint64(max(1, -(-n // rows)))
        self._keys = [np.uint64(stream.bits(at)) for at in range(_ROUNDS)]

    def forward(self, positions: Words) -> Words:
        """The sample ids at these positions."""
        return self._walk(positions, self._encrypt)

    def backward(self, ids: Words) -> Words:
        """The positions of these sample ids."""
        return self._walk(ids, self._decrypt)

    def _walk(self, numbers: Words, permute: Callable[[Words], Words]) -> Words:
        """Permute the grid again and again until every number has landed below n."""
        landed = permute(numbers)
        outside = landed >= self.n
        while outside.any():
            landed[outside] = permute(landed[outside])
            outside = landed >= self.n
        return landed

    def _encrypt(self, numbers: Words) -> Words:
        row, column = np.divmod(numbers, self._columns)
        for index, key in enumerate(self._keys):
            if index % 2 == 0:
                row = (row + _hash(column, key) % self._rows) % self._rows
            else:
                column = (column + _hash(row, key) % self._columns) % self._columns
        return row * self._columns + column

    def _decrypt(self, numbers: Words) -> Words:
        row, column = np.divmod(numbers, self._columns)
        for index, key in reversed(list(enumerate(self._keys))):
            if index % 2 == 0:
                row = (row + self._rows - _hash(column, key) % self._rows) % self._rows
            else:
                column = (column + self._columns - _hash(row, key) % self._columns) % self._columns
        return row * self._columns + column


def _hash(words: Words, key: np.uint64) -> Words:
    """Sixty-four well-mixed bits of each word under `key` (the finaliser of SplitMix64)."""
    words = words + key
    words = (words ^ (words >> _SHIFTS[0])) * _MULTIPLIERS[0]
    words = (words ^ (words >> _SHIFTS[1])) * _MULTIPLIERS[1]
    return words ^ (words >> _SHIFTS[2])
