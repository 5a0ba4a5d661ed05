"""`Ragged`: lists of different lengths, stored as two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths as two arrays: list i is `values[offsets[i]:offsets[i + 1]]`.

    >>> lists = Ragged.from_lists([[4, 1], [], [7]])
    >>> lists.offsets.tolist(), lists[0].tolist(), len(lists)
    ([0, 2, 2, 3], [4, 1], 3)
    """

    offsets: NDArray[np.int64]
    """[N + 1], rising from 0 to the number of values."""
    values: NDArray[np.int64]
    """The values of all lists, one list after another."""

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> Ragged:
        """Build it from a list of lists of integers."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in lists], out=offsets[1:])
        values = np.fromiter(
            (value for each in lists for value in each), dtype=np.int64, count=int(offsets[-1])
        )
        return cls(offsets, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        # A negative index would silently read between the wrong offsets.
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def tolist(self) -> list[list[int]]:
        """A list of lists of integers."""
        return [self[index].tolist() for index in range(len(self))]

    def parts(self) -> dict[str, NDArray[Any]]:
        """The two arrays, keyed by the suffixes of their files."""
        return {"offsets": self.offsets, "values": self.values}
