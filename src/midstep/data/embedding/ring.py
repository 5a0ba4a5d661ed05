"""A few large buffers that batches are gathered into, used again once nobody holds them.

A fresh buffer costs more in page faults than the gather itself. A buffer is an array; whoever holds
a tensor made of it, or any view of one, holds a reference to that array. So a batch that the user
keeps stays as it is: its buffer is left to him and another one takes its place.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = ["BufferRing", "Buffers", "PinnedBuffers"]

SLOTS = 6
"""Held by the ring: one with the user, one being asked for, the rest filled ahead."""
_NOT_HELD = 3
"""References to a free buffer while it is looked at: list, variable, and the call itself."""


class Buffers(Protocol):
    """Where a batch is gathered into."""

    def take(self) -> torch.Tensor:
        """A buffer that nobody else holds."""
        ...


class BufferRing:
    """Buffers of `rows` rows of float32.

    Args:
        rows: of each buffer.
        width: numbers in a row.

    >>> ring = BufferRing(2, 3)
    >>> kept = ring.take()[1:]
    >>> other = ring.take()
    >>> other.data_ptr() == kept.data_ptr() - 12
    False
    >>> del kept, other
    >>> len({ring.take().data_ptr() for _ in range(20)}) <= 2
    True
    """

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        self._slots: list[NDArray[Any]] = []
        self._lock = threading.Lock()

    def take(self) -> torch.Tensor:
        """A buffer that nobody else holds; its content is whatever was there before."""
        import torch

        with self._lock:  # a tensor must hold the buffer before another thread looks
            return torch.from_numpy(self._free())

    def _free(self) -> NDArray[Any]:
        for index in range(len(self._slots)):
            slot = self._slots[index]
            if sys.getrefcount(slot) <= _NOT_HELD:
                return slot
        made = np.empty((self.rows, self.width), dtype=np.float32)
        self._slots.append(made)
        if len(self._slots) > SLOTS:
            del self._slots[0]  # the oldest is left to whoever holds it
        return made


class PinnedBuffers:
    """Buffers of pinned memory, fresh for every batch: torch keeps a ring of them by itself, and
    knows, as we do not, when a copy to the device that is under way has been made.

    Args:
        rows: of each buffer.
        width: numbers in a row.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width

    def take(self) -> torch.Tensor:
        """A pinned buffer."""
        import torch

        return torch.empty(self.rows, self.width, pin_memory=True)
