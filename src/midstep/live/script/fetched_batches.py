"""`FetchedBatches`: which batch of a DataLoader a forward pass was given."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from midstep.data.batch_structure import count_samples, tensors_of

MOST_AHEAD = 64
"""Batches that are remembered of a loader that fetches ahead."""


class FetchedBatches:
    """Batches that a DataLoader gave, and no forward pass has used yet.

    A loop may fetch a batch before the one in training is done: Accelerate fetches one ahead, the
    Trainer of Hugging Face all micro-batches of a step. Then the batch of a forward pass is the one
    that shares memory with its inputs. If none does, since they were computed from the batch, it is
    the oldest one, if the script still holds it.

    Only the newest batch is kept alive.
    """

    def __init__(self) -> None:
        self._iterator: weakref.ref[Any] | None = None
        self._newest: Any = None  # a batch
        self._older: list[Any] = []  # copies of batches, with weak references to their parts
        self._is_ahead = False
        self._is_due = False  # whether a batch was requested since a forward pass
        self.order: int | None = None
        """Id of the sampler of the loader."""

    @property
    def any(self) -> bool:
        """Whether a batch waits for its forward pass."""
        return self._newest is not None

    def add(self, iterator: Any, batch: Any) -> None:
        """A DataLoader gave a batch. Of several loaders, the first one's batch counts."""
        current = None if self._iterator is None else self._iterator()
        if current is not iterator:
            if self.any and current is not None:
                return
            self._iterator, self._newest, self._older = weakref.ref(iterator), None, []
            self._is_ahead = False
            self.order = id(iterator._index_sampler)
        if self.any:
            weak = _changed(self._newest, _weak)
            self._older = [*self._older[1 - MOST_AHEAD :], weak]
            self._is_ahead = True
        self._newest, self._is_due = batch, True

    def end_pass(self, iterator: Any) -> None:
        """A DataLoader has no further batch."""
        if self._iterator is not None and self._iterator() is iterator:
            self._is_due = True

    def take(self, given: Any) -> Any:
        """The batch of a forward pass; None if it is not known.

        Args:
            given: the inputs of the pass; None if they are unknown.
        """
        is_due, self._is_due = self._is_due, False
        if not self._is_ahead:
            batch, self._newest = self._newest, None
            return batch
        waiting = [*(_strong(each) for each in self._older), self._newest]
        storages = _storages(given)
        for index, batch in enumerate(waiting):
            if batch is not None and not storages.isdisjoint(_storages(batch)):
                return self._remove(index, batch)
        if not is_due:
            return None
        oldest = self._remove(0, waiting[0])
        return oldest if count_samples(oldest) == count_samples(given) else None

    def _remove(self, index: int, batch: Any) -> Any:
        """Remove the waiting batches up to this one, and return it."""
        if index == len(self._older):
            self._newest, self._is_ahead = None, False
        del self._older[: index + 1]
        return batch


def _storages(structure: Any) -> set[int]:
    """The memory of all tensors in it."""
    return {_storage(tensor) for tensor in tensors_of(structure)} - {0}


def _storage(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0  # a sparse or a wrapped tensor has no memory of its own


def _weak(leaf: Any) -> Any:
    """What is kept of a part of a batch: numbers and text, and references to anything else."""
    if leaf is None or isinstance(leaf, bool | int | float | str | bytes):
        return leaf
    try:
        return weakref.ref(leaf)
    except TypeError:
        return None


def _strong(older: Any) -> Any:
    """The batch that `older` was; None if a part of it is no more."""
    is_alive = True

    def part_of(leaf: Any) -> Any:
        nonlocal is_alive
        if not isinstance(leaf, weakref.ref):
            return leaf
        part = leaf()
        is_alive = is_alive and part is not None
        return part

    batch = _changed(older, part_of)
    return batch if is_alive else None


def _changed(structure: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a batch with other leaves."""
    if isinstance(structure, Mapping):
        return {key: _changed(value, change) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return [_changed(value, change) for value in structure]
    return change(structure)
