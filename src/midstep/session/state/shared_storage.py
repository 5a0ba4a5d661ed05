"""Which tensors share memory, and how to copy each piece of it once.

Tied weights, views and overlapping slices of one storage become one `MemoryBlock`. Each tensor is a
view of its block, in the copy as in the original. Tensors that only lie in the same storage without
overlapping are copied apart, so that a slice of something huge does not copy all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from midstep.core.errors import FormatError
from midstep.session.state.state_tree import rebuild, walk

__all__ = ["MemoryBlock", "View", "clone_all", "find_pieces", "wait_for_devices"]

ALIGNMENT_BYTES = 16
"""Pieces seen as several types start at a multiple of the widest one."""


@dataclass(frozen=True, kw_only=True)
class View:
    """How a tensor lies in the copy of its piece, counted in its own elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """The tensor inside `base`, a contiguous copy of the piece."""
        flat = base.reshape(-1)
        if flat.dtype != self.dtype:
            flat = flat.view(torch.uint8)
            flat = flat[: flat.numel() // self.dtype.itemsize * self.dtype.itemsize]
            flat = flat.view(self.dtype)
        self._check(flat.numel())
        return flat.as_strided(self.shape, self.stride, flat.storage_offset() + self.offset)

    def _check(self, available: int) -> None:
        numbers = (*self.shape, *self.stride, self.offset)
        if len(self.shape) != len(self.stride) or any(number < 0 for number in numbers):
            raise FormatError(f"a view of shape {self.shape} and stride {self.stride} is none")
        if 0 not in self.shape and self.offset + _reach(self.shape, self.stride) > available:
            raise FormatError(f"a view of shape {self.shape} reaches beyond its {available} values")


@dataclass(kw_only=True)
class MemoryBlock:
    """Memory to copy once, and the tensors that are views of it."""

    source: torch.Tensor
    """What to copy, seen so that a contiguous copy has every value once."""
    members: dict[int, View | None] = field(default_factory=dict)
    """By their number among the tensors given; None: the copy itself is the tensor."""

    def rebuild(self, copy: torch.Tensor) -> dict[int, torch.Tensor]:
        """The members, as views of a contiguous copy of `source`."""
        return {
            index: copy if view is None else view.of(copy) for index, view in self.members.items()
        }


def clone_tree(tree: Any, *, to_host: bool = False) -> Any:
    """A copy that nobody else can change; tensors that share memory go on sharing it.

    >>> weight = torch.ones(2)
    >>> copy = clone_tree({"tied": [weight, weight]})
    >>> copy["tied"][0] is not weight, copy["tied"][0].data_ptr() == copy["tied"][1].data_ptr()
    (True, True)
    """
    tensors = [leaf for _, leaf in walk(tree) if isinstance(leaf, torch.Tensor)]
    with torch.no_grad():
        copies = iter(clone_all(tensors, to_host=to_host))
    return rebuild(tree, lambda leaf: _copied(leaf, copies))


def _copied(leaf: Any, copies: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return next(copies)
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def clone_all(tensors: Sequence[torch.Tensor], *, to_host: bool = False) -> list[torch.Tensor]:
    """Copies that share memory among themselves where the tensors do.

    >>> weight = torch.zeros(2, 3)
    >>> first, second = clone_all([weight, weight.t()])
    >>> first.fill_(1.0).sum() == second.sum()
    tensor(True)
    """
    if to_host:
        wait_for_devices(tensors)
    made: dict[int, torch.Tensor] = {}
    entangled = []
    for index, is_alone in enumerate(_stand_alone(tensors)):
        if is_alone:
            made[index] = _copy(tensors[index], to_host=to_host)
        else:
            entangled.append(index)
    for piece in find_pieces([tensors[index] for index in entangled]):
        copies = piece.rebuild(_copy(piece.source, to_host=to_host))
        made.update((entangled[place], copy) for place, copy in copies.items())
    return [made[index] for index in range(len(tensors))]


def _stand_alone(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """Which tensors have a storage of their own and need no view: nearly all, and seen quickly."""
    keys = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    users = Counter(keys)
    return [
        users[key] == 1 and each.is_contiguous() and not (each.is_conj() or each.is_neg())
        for key, each in zip(keys, tensors, strict=True)
    ]


def wait_for_devices(tensors: Iterable[torch.Tensor]) -> None:
    """Wait until the tensors are computed: another thread's stream is not ordered behind ours."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.synchronize(device)


def _copy(source: torch.Tensor, *, to_host: bool) -> torch.Tensor:
    if to_host and source.device.type != "cpu":
        return source.detach().contiguous().to("cpu")
    return source.detach().clone(memory_format=torch.contiguous_format)


def find_pieces(tensors: Iterable[torch.Tensor]) -> list[MemoryBlock]:
    """The pieces of memory behind some tensors, in the order of their first members."""
    storages: dict[Any, list[tuple[int, torch.Tensor]]] = {}
    for index, tensor in enumerate(tensors):
        plain = tensor.detach().resolve_conj().resolve_neg()
        storages.setdefault(_storage_key(plain, index), []).append((index, plain))
    pieces = [piece for members in storages.values() for piece in _pieces_of_storage(members)]
    return sorted(pieces, key=lambda piece: min(piece.members))


def _storage_key(tensor: torch.Tensor, index: int) -> Any:
    if tensor.numel() == 0:
        return index  # nothing to share
    storage = tensor.untyped_storage()
    return tensor.device, storage.data_ptr(), storage.nbytes()


def _pieces_of_storage(members: list[tuple[int, torch.Tensor]]) -> list[MemoryBlock]:
    if len(members) == 1:
        return [_single([members[0][0]], members[0][1])]
    return [_cluster(cluster) for cluster in _overlapping(members)]


def _overlapping(
    members: list[tuple[int, torch.Tensor]],
) -> list[list[tuple[int, torch.Tensor]]]:
    """Members of one storage in groups whose ranges of bytes overlap."""
    groups: list[list[tuple[int, torch.Tensor]]] = []
    end = -1
    for member in sorted(members, key=lambda member: _byte_range(member[1])):
        start, stop = _byte_range(member[1])
        if groups and start < end:
            groups[-1].append(member)
        else:
            groups.append([member])
        end = max(end, stop)
    return groups


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    start = int(tensor.storage_offset())
    stop = start + _reach(tensor.shape, tensor.stride())
    return start * tensor.itemsize, stop * tensor.itemsize


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from the first to the last one, both counted."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _cluster(members: list[tuple[int, torch.Tensor]]) -> MemoryBlock:
    """One piece for tensors that overlap: the same view of all, or the span that holds them."""
    first = members[0][1]
    if len({_appearance(tensor) for _, tensor in members}) == 1:
        return _single([index for index, _ in members], first)
    ranges = [_byte_range(tensor) for _, tensor in members]
    dtypes = {tensor.dtype for _, tensor in members}
    dtype = first.dtype if len(dtypes) == 1 else torch.uint8
    unit = dtype.itemsize if len(dtypes) == 1 else ALIGNMENT_BYTES
    start = min(low for low, _ in ranges) // unit * unit
    stop = max(high for _, high in ranges)
    piece = MemoryBlock(source=_span(first, dtype, start, stop))
    for (index, tensor), (low, _) in zip(members, ranges, strict=True):
        piece.members[index] = _view(tensor, tensor.stride(), (low - start) // tensor.itemsize)
    return piece


def _appearance(tensor: torch.Tensor) -> Any:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _span(like: torch.Tensor, dtype: torch.dtype, start: int, stop: int) -> torch.Tensor:
    """The bytes from `start` to `stop` of the storage behind `like`, as a flat tensor."""
    size = dtype.itemsize
    flat = torch.empty(0, dtype=dtype, device=like.device)
    return flat.set_(like.untyped_storage(), start // size, ((stop - start) // size,), (1,))


def _view(tensor: torch.Tensor, stride: Sequence[int], offset: int = 0) -> View:
    return View(dtype=tensor.dtype, shape=tuple(tensor.shape), stride=tuple(stride), offset=offset)


def _single(indices: list[int], tensor: torch.Tensor) -> MemoryBlock:
    """A piece with one appearance: kept in its own order in memory, without repeats or gaps."""
    if tensor.is_contiguous():
        return MemoryBlock(source=tensor, members=dict.fromkeys(indices))
    stride = tensor.stride()
    order = sorted(range(tensor.dim()), key=stride.__getitem__, reverse=True)
    source = _without_repeats(tensor).permute(order)
    if _reach(source.shape, source.stride()) < source.numel():  # windows that overlap themselves
        start, stop = _byte_range(tensor)
        span = _span(tensor, tensor.dtype, start, stop)
        view = _view(tensor, tensor.stride())
        return MemoryBlock(source=span, members=dict.fromkeys(indices, view))
    view = _view(tensor, _packed_stride(tensor, source, order))
    return MemoryBlock(source=source, members=dict.fromkeys(indices, view))


def _without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """Expanded dimensions cut to their one value."""
    for dim in range(tensor.dim()):
        if tensor.stride(dim) == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _packed_stride(tensor: torch.Tensor, source: torch.Tensor, order: list[int]) -> list[int]:
    """The strides of `tensor` over a contiguous copy of `source`, its dimensions in `order`."""
    stride, step = [0] * tensor.dim(), 1
    for place in reversed(range(len(order))):
        dim = order[place]
        stride[dim] = 0 if tensor.stride(dim) == 0 else step
        step *= source.shape[place]
    return stride
