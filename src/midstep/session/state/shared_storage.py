"""Which tensors share memory, and how to copy each block of memory once.

Tied weights, views and overlapping slices of one storage become one `MemoryBlock`. Each tensor is a
view of its block, in the copy as in the original, so that tied weights stay tied. Tensors of one
storage that do not overlap are copied separately: a small slice must not copy a huge storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from midstep.core.errors import FormatError
from midstep.session.state.state_tree import rebuild, tensors_of

ALIGNMENT_BYTES = 16
"""A block with tensors of several types starts at a multiple of the widest type."""


@dataclass(frozen=True, kw_only=True)
class View:
    """How a tensor is laid out in the copy of its block, counted in its own elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    def tensor_in(self, base: torch.Tensor) -> torch.Tensor:
        """The tensor inside `base`, a contiguous copy of the block."""
        flat = base.reshape(-1)
        if flat.dtype != self.dtype:
            # Through bytes: a view of a wider type needs a whole number of its items.
            flat = flat.view(torch.uint8)
            flat = flat[: flat.numel() // self.dtype.itemsize * self.dtype.itemsize]
            flat = flat.view(self.dtype)
        self._check(flat.numel())
        return flat.as_strided(self.shape, self.stride, flat.storage_offset() + self.offset)

    def _check(self, available: int) -> None:
        # Checkpoints may be damaged, and `as_strided` reads beyond a storage without complaint.
        numbers = (*self.shape, *self.stride, self.offset)
        if len(self.shape) != len(self.stride) or any(number < 0 for number in numbers):
            raise FormatError(f"a view of shape {self.shape} and stride {self.stride} is invalid")
        if 0 not in self.shape and self.offset + _reach(self.shape, self.stride) > available:
            raise FormatError(f"a view of shape {self.shape} reaches beyond its {available} values")


@dataclass(kw_only=True)
class MemoryBlock:
    """Memory to copy once, and the tensors that are views of it."""

    source: torch.Tensor
    """What to copy, as a view of which a contiguous copy has every value once."""
    members: dict[int, View | None] = field(default_factory=dict)
    """By index among the given tensors; None if the copy itself is the tensor."""

    def rebuild(self, copy: torch.Tensor) -> dict[int, torch.Tensor]:
        """The members, as views of a contiguous copy of `source`."""
        return {
            index: copy if view is None else view.tensor_in(copy)
            for index, view in self.members.items()
        }


def clone_tree(tree: Any, *, to_host: bool = False) -> Any:
    """A copy that shares nothing with the original; tensors that share memory still do.

    >>> weight = torch.ones(2)
    >>> copy = clone_tree({"tied": [weight, weight]})
    >>> copy["tied"][0] is not weight, copy["tied"][0].data_ptr() == copy["tied"][1].data_ptr()
    (True, True)
    """
    tensors = [tensor for _, tensor in tensors_of(tree)]
    with torch.no_grad():
        copies = iter(clone_all(tensors, to_host=to_host))

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return next(copies)  # `rebuild` visits leaves in the order of `tensors_of`
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf

    return rebuild(tree, copy)


def clone_all(tensors: Sequence[torch.Tensor], *, to_host: bool = False) -> list[torch.Tensor]:
    """Copies that share memory with each other where the tensors do.

    >>> weight = torch.zeros(2, 3)
    >>> first, second = clone_all([weight, weight.t()])
    >>> first.fill_(1.0).sum() == second.sum()
    tensor(True)
    """
    if to_host:
        wait_for_devices(tensors)
    # Nearly all tensors of a state are contiguous in a storage of their own. This is cheap to see,
    # and only the others need the search for blocks.
    pointers = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    users = Counter(pointers)
    copies: dict[int, torch.Tensor] = {}
    sharing = []
    for index, (tensor, pointer) in enumerate(zip(tensors, pointers, strict=True)):
        is_lazy = tensor.is_conj() or tensor.is_neg()
        if users[pointer] == 1 and tensor.is_contiguous() and not is_lazy:
            copies[index] = _copy(tensor, to_host=to_host)
        else:
            sharing.append(index)
    for block in find_blocks([tensors[index] for index in sharing]):
        members = block.rebuild(_copy(block.source, to_host=to_host))
        copies.update((sharing[number], copy) for number, copy in members.items())
    return [copies[index] for index in range(len(tensors))]


def wait_for_devices(tensors: Iterable[torch.Tensor]) -> None:
    """Wait until the tensors are computed: a stream of another thread is not ordered after ours."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.synchronize(device)


def _copy(source: torch.Tensor, *, to_host: bool) -> torch.Tensor:
    if to_host and source.device.type != "cpu":
        return source.detach().contiguous().to("cpu")
    return source.detach().clone(memory_format=torch.contiguous_format)


def find_blocks(tensors: Iterable[torch.Tensor]) -> list[MemoryBlock]:
    """The blocks of memory that some tensors use, in the order of their first members."""
    storages: dict[Any, list[tuple[int, torch.Tensor]]] = {}
    for index, tensor in enumerate(tensors):
        plain = tensor.detach().resolve_conj().resolve_neg()
        storages.setdefault(_storage_key(plain, index), []).append((index, plain))
    blocks = [_block(group) for members in storages.values() for group in _overlapping(members)]
    return sorted(blocks, key=lambda block: min(block.members))


def _storage_key(tensor: torch.Tensor, index: int) -> Any:
    if tensor.numel() == 0:
        return index  # no memory to share, although all empty storages have the pointer 0
    storage = tensor.untyped_storage()
    return tensor.device, storage.data_ptr(), storage.nbytes()


Members = list[tuple[int, torch.Tensor]]
"""Tensors of one storage, each with its index."""


def _overlapping(members: Members) -> list[Members]:
    """Members of one storage in groups whose byte ranges overlap."""
    groups: list[Members] = []
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
    """Number of elements from the first to the last one, both included."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _block(members: Members) -> MemoryBlock:
    """One block for tensors that overlap: their common view, or the span that contains them all."""
    first = members[0][1]
    layouts = {(t.dtype, t.shape, t.stride(), t.storage_offset()) for _, t in members}
    if len(layouts) == 1:
        return _single([index for index, _ in members], first)
    ranges = [_byte_range(tensor) for _, tensor in members]
    dtypes = {tensor.dtype for _, tensor in members}
    dtype = first.dtype if len(dtypes) == 1 else torch.uint8
    unit = dtype.itemsize if len(dtypes) == 1 else ALIGNMENT_BYTES
    start = min(low for low, _ in ranges) // unit * unit
    stop = max(high for _, high in ranges)
    block = MemoryBlock(source=_span(first, dtype, start, stop))
    for (index, tensor), (low, _) in zip(members, ranges, strict=True):
        block.members[index] = _view(tensor, tensor.stride(), (low - start) // tensor.itemsize)
    return block


def _span(like: torch.Tensor, dtype: torch.dtype, start: int, stop: int) -> torch.Tensor:
    """The bytes from `start` to `stop` of the storage of `like`, as a flat tensor."""
    size = dtype.itemsize
    flat = torch.empty(0, dtype=dtype, device=like.device)
    return flat.set_(like.untyped_storage(), start // size, ((stop - start) // size,), (1,))


def _view(tensor: torch.Tensor, stride: Sequence[int], offset: int = 0) -> View:
    return View(dtype=tensor.dtype, shape=tuple(tensor.shape), stride=tuple(stride), offset=offset)


def _single(indices: list[int], tensor: torch.Tensor) -> MemoryBlock:
    """A block with one layout, copied in its order in memory, without repeats or gaps."""
    if tensor.is_contiguous():
        return MemoryBlock(source=tensor, members=dict.fromkeys(indices))
    stride = tensor.stride()
    order = sorted(range(tensor.dim()), key=stride.__getitem__, reverse=True)
    source = _without_repeats(tensor).permute(order)
    if _reach(source.shape, source.stride()) < source.numel():
        # Windows that overlap themselves, as `unfold` makes them: copy the span below them.
        source = _span(tensor, tensor.dtype, *_byte_range(tensor))
    else:
        stride = _packed_stride(tensor, source, order)
    return MemoryBlock(source=source, members=dict.fromkeys(indices, _view(tensor, stride)))


def _without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with each expanded dimension cut to its one value."""
    for dim in range(tensor.dim()):
        if tensor.stride(dim) == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _packed_stride(tensor: torch.Tensor, source: torch.Tensor, order: list[int]) -> tuple[int, ...]:
    """The strides of `tensor` over a contiguous copy of `source`, its dimensions in `order`."""
    stride, step = [0] * tensor.dim(), 1
    for dim, size in reversed(list(zip(order, source.shape, strict=True))):
        stride[dim] = 0 if tensor.stride(dim) == 0 else step
        step *= size
    return tuple(stride)
