"""Rows of a table by id, written straight into a batch: one gather, wherever the table lies."""

from __future__ import annotations

import mmap
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pages", "RowTable", "as_tensor"]

REGION_BYTES = 2 * 1024 * 1024
"""What one touched row may make resident: the kernel maps a whole huge page where it can."""
SHARE_HELD = 0.04
"""Of a mapped file, what may be resident before its pages are released."""
STAGED_ROWS = 512
"""Rows of half precision that are widened together, while they lie in the cache."""


class Pages:
    """The pages of one mapped array, which are released as soon as they have been read.

    Args:
        array: mapped, or in memory, which makes every call do nothing.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        found = getattr(array, "_mmap", None)
        self._map: mmap.mmap | None = found if isinstance(found, mmap.mmap) else None
        self._row_bytes = array.nbytes // max(1, len(array))
        self._regions = max(1, int(array.nbytes * SHARE_HELD) // REGION_BYTES)

    @property
    def mapped(self) -> bool:
        """Whether there is a file behind the array."""
        return self._map is not None

    def release(self) -> None:
        """Give all pages back; the next read faults them in again from the system's cache."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def cuts(self, ids: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Rising ids in runs that touch no more of the file than may be resident."""
        regions = ids * self._row_bytes // REGION_BYTES
        number = np.cumsum(np.diff(regions, prepend=regions[:1]) != 0) // self._regions
        edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(ids)]
        return list(pairwise(edges))


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """The array as a tensor that shares its memory and is only ever read."""
    with warnings.catch_warnings():  # torch warns of memory that it could not write
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


class RowTable:
    """A table of rows from which a batch is gathered.

    Args:
        array: float32, or float16, which is widened on the way.
        device: where to keep it; on the CPU the array itself is used.

    >>> table = RowTable(np.eye(3, dtype=np.float16))
    >>> table.gather(torch.tensor([2, 0]), torch.empty(2, 3)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, array: NDArray[Any], device: torch.device | None = None) -> None:
        self.pages = Pages(array)
        self.tensor = as_tensor(array)
        self._array: NDArray[Any] | None = array
        if device is not None and device.type != "cpu":
            self.tensor = self.tensor.to(device)
            self.pages, self._array = Pages(np.empty(0)), None

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Rows `ids`, which must lie in the table, into `out`, which is float32."""
        if self.pages.mapped:
            return self._gather_mapped(ids.numpy(), out)
        if self._array is not None and self.tensor.dtype == out.dtype:
            # As fast as torch in one thread, and it starts no others: torch's own wait for each
            # other, which costs more than the rows once the cores are busy with training.
            np.take(self._array, ids.numpy(), axis=0, out=out.numpy(), mode="clip")
            return out
        if self.tensor.dtype == out.dtype:
            return torch.index_select(self.tensor, 0, ids, out=out)
        for start in range(0, len(ids), STAGED_ROWS):
            part = ids[start : start + STAGED_ROWS]
            out[start : start + STAGED_ROWS].copy_(torch.index_select(self.tensor, 0, part))
        return out

    def _gather_mapped(self, ids: NDArray[np.int64], out: torch.Tensor) -> torch.Tensor:
        """In the order of the file, so that a page is touched once, and released behind us."""
        if not len(ids):
            return out
        order = np.argsort(ids, kind="stable")
        rising = ids[order]
        where, sorted_ids = torch.from_numpy(order), torch.from_numpy(rising)
        for start, stop in self.pages.cuts(rising):
            rows = torch.index_select(self.tensor, 0, sorted_ids[start:stop])
            out.index_copy_(0, where[start:stop], rows.to(out.dtype))
            self.pages.release()
        return out
