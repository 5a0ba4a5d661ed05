"""Snapshots that follow each other share what did not change between them, as frozen weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import torch

from midstep.session.snapshot import Snapshot
from midstep.session.state_tree import Path, rebuild, walk

__all__ = ["bytes_together", "share_unchanged"]

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By their width: bits are compared, since 0.0 equals -0.0 and NaN does not equal itself."""


def bytes_together(snapshots: Iterable[Snapshot]) -> int:
    """Memory that the tensors of some snapshots take, shared memory counted once."""
    storages = {
        storage.data_ptr(): storage.nbytes()
        for snapshot in snapshots
        for tensor in _tensors(snapshot)
        for storage in [tensor.untyped_storage()]
    }
    return sum(storages.values())


def share_unchanged(later: Snapshot, earlier: Snapshot) -> Snapshot:
    """`later`, with the tensors of `earlier` where both have the same bits.

    Comparing ends at the first difference, so it takes time only where it saves memory.

    >>> frozen = torch.nn.Linear(2, 2)
    >>> first, second = (Snapshot.take({"model": frozen}, step=step) for step in (0, 1))
    >>> second = share_unchanged(second, first)
    >>> bytes_together([first, second]) == first.bytes
    True
    """
    if later.states.keys() != earlier.states.keys():
        return later
    known = dict(_alone(earlier))
    shared = {
        id(leaf): found
        for path, leaf in _alone(later)
        if (found := known.get(path)) is not None and _same_bits(found, leaf)
    }
    return replace(later, states=rebuild(later.states, lambda leaf: shared.get(id(leaf), leaf)))


def _tensors(snapshot: Snapshot) -> list[torch.Tensor]:
    return [leaf for _, leaf in walk(snapshot.states) if isinstance(leaf, torch.Tensor)]


def _alone(snapshot: Snapshot) -> list[tuple[Path, torch.Tensor]]:
    """Tensors that share memory with no other of their snapshot; tied ones would come apart."""
    found = [(path, leaf) for path, leaf in walk(snapshot.states) if isinstance(leaf, torch.Tensor)]
    users = Counter(leaf.untyped_storage().data_ptr() for _, leaf in found)
    return [each for each in found if users[each[1].untyped_storage().data_ptr()] == 1]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape) or one.stride() != other.stride():
        return False
    return bool(torch.equal(_bits(one), _bits(other)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    width = _INTEGERS.get(plain.itemsize)
    return plain if width is None else plain.view(width)
