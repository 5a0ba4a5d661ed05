"""Large arrays of a state, such as replay buffers: which they are, and copies that share blocks.

A step overwrites a small part of a replay buffer. So two snapshots of it share the blocks that have
the same bytes in both; only an overwritten block is held twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from midstep.session.state.state_tree import Path, rebuild, walk

LARGE_BYTES = 64 << 20
"""An array with more bytes is stored in blocks."""
BLOCK_BYTES = 4 << 20
_WHOLE = frozenset({"model", "optimizer", "loss_fn", "untracked", "random", "epoch_random"})
"""Parts whose tensors change as a whole with each step: blocks of them would all be rewritten."""


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """From which size on an array is stored in blocks, and how large a block is."""

    large_bytes: int = LARGE_BYTES
    block_bytes: int = BLOCK_BYTES


def changes_in_places(part: str) -> bool:
    """Whether large arrays of this part of a state are stored in blocks.

    >>> changes_in_places("also"), changes_in_places("optimizer.D")
    (True, False)
    """
    return part.partition(".")[0] not in _WHOLE


@dataclass(frozen=True, kw_only=True)
class LargeArray:
    """A copy of an array or tensor in host memory, in blocks of bytes that are never changed."""

    blocks: tuple[np.ndarray[Any, Any], ...]
    dtype: Any
    """Element type, of NumPy or of torch."""
    shape: tuple[int, ...]
    block_bytes: int

    def assembled(self) -> Any:
        """The array or tensor; its memory is its own."""
        is_tensor = isinstance(self.dtype, torch.dtype)
        whole: Any = (torch.empty if is_tensor else np.empty)(self.shape, dtype=self.dtype)
        flat = _bytes_of(whole)
        for index, block in enumerate(self.blocks):
            flat[index * self.block_bytes :][: len(block)] = block
        return whole


class LargeCopies:
    """Copies the large arrays of one snapshot; unchanged blocks are those of the one before.

    Comparing takes a pass over the memory, so an array that `shared_bytes` has compared is
    not compared again by `take`.

    Args:
        earlier: the large arrays of the snapshot before, by path.
        sizes: what is large.
    """

    def __init__(
        self,
        earlier: Mapping[Path, LargeArray] | None = None,
        sizes: BlockSizes | None = None,
    ) -> None:
        self._earlier, self._sizes = dict(earlier or {}), sizes or BlockSizes()
        self._kept: dict[Path, list[np.ndarray[Any, Any] | None]] = {}

    def shared_bytes(self, live: Mapping[str, Any]) -> int:
        """Bytes of the blocks that a copy of these states would share with the earlier one.

        Args:
            live: the states of the parts, by name.
        """
        kept = [
            block
            for path, array in self._large(live).items()
            for block in self._unchanged(path, array)
            if block is not None
        ]
        # The snapshot before may now be dropped; its overwritten blocks must not be held by us.
        self._earlier.clear()
        return sum(len(block) for block in kept)

    def take(self, live: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Path, LargeArray]]:
        """The states with None in place of each large array, and copies of these."""
        large = self._large(live)
        copies = {path: self._copy(path, array) for path, array in large.items()}
        by_id = {id(array) for array in large.values()}
        rest = rebuild(dict(live), lambda leaf: None if id(leaf) in by_id else leaf)
        return (rest if large else dict(live)), copies

    def _large(self, live: Mapping[str, Any]) -> dict[Path, Any]:
        leaves = {name: walk(state) for name, state in live.items() if changes_in_places(name)}
        arrays = [
            ((name, *path), leaf)
            for name, each in leaves.items()
            for path, leaf in each
            if isinstance(leaf, torch.Tensor | np.ndarray)
        ]
        # One that shares memory with another array must stay shared, so it is cloned with it.
        users = Counter(_memory(leaf) for _, leaf in arrays)
        return {
            path: leaf
            for path, leaf in arrays
            if leaf.nbytes > self._sizes.large_bytes
            and users[_memory(leaf)] == 1
            and _is_plain_memory(leaf)
        }

    def _unchanged(self, path: Path, array: Any) -> list[np.ndarray[Any, Any] | None]:
        """The blocks of the earlier copy that have the same bytes, None for each that has not."""
        if path not in self._kept:
            size, flat = self._sizes.block_bytes, _bytes_of(array)
            before = self._earlier.get(path)
            same_form = before is not None and (before.dtype, before.shape, before.block_bytes) == (
                array.dtype,
                tuple(array.shape),
                size,
            )
            old = dict(enumerate(before.blocks)) if before is not None and same_form else {}
            starts = enumerate(range(0, len(flat), size))
            self._kept[path] = [
                _if_equal(old.get(index), flat[start : start + size]) for index, start in starts
            ]
        return self._kept[path]

    def _copy(self, path: Path, array: Any) -> LargeArray:
        size, flat = self._sizes.block_bytes, _bytes_of(array)
        blocks = tuple(
            flat[index * size :][:size].copy() if kept is None else kept
            for index, kept in enumerate(self._unchanged(path, array))
        )
        return LargeArray(
            blocks=blocks, dtype=array.dtype, shape=tuple(array.shape), block_bytes=size
        )


def _if_equal(
    block: np.ndarray[Any, Any] | None, data: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any] | None:
    return block if block is not None and np.array_equal(block, data) else None


def with_large(states: Mapping[str, Any], large: Mapping[Path, LargeArray]) -> dict[str, Any]:
    """The states with each large array back in its place."""
    if not large:
        return dict(states)
    paths = iter(path for path, _ in walk(dict(states)))

    def back_in_place(leaf: Any) -> Any:
        array = large.get(next(paths))  # `rebuild` visits leaves in the order of `walk`
        return leaf if array is None else array.assembled()

    whole: dict[str, Any] = rebuild(dict(states), back_in_place)
    return whole


def block_bytes(*several: Mapping[Path, LargeArray]) -> int:
    """Bytes of the blocks of large arrays, each block counted once."""
    blocks = {
        id(block): len(block)
        for each in several
        for array in each.values()
        for block in array.blocks
    }
    return sum(blocks.values())


def shared_block_bytes(one: Mapping[Path, LargeArray], other: Mapping[Path, LargeArray]) -> int:
    """Bytes of the blocks that both have."""
    return block_bytes(one) + block_bytes(other) - block_bytes(one, other)


def array_bytes(array: Any) -> np.ndarray[Any, Any]:
    """The bytes of an array in C order; a copy only if its elements are not in that order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _bytes_of(array: Any) -> np.ndarray[Any, Any]:
    """The memory of a contiguous array or tensor, as a view."""
    if isinstance(array, torch.Tensor):
        viewed: np.ndarray[Any, Any] = array.detach().reshape(-1).view(torch.uint8).numpy()
        return viewed
    return array_bytes(array)


def _memory(array: Any) -> tuple[str, int]:
    """Where an array has its memory: equal for two views of one storage."""
    if isinstance(array, torch.Tensor):
        return str(array.device), array.untyped_storage().data_ptr()
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return "cpu", root.__array_interface__["data"][0]


def _is_plain_memory(array: Any) -> bool:
    """Whether its bytes are in host memory, in C order and without lazy bits."""
    if isinstance(array, torch.Tensor):
        is_lazy = array.is_conj() or array.is_neg()
        return array.device.type == "cpu" and array.is_contiguous() and not is_lazy
    return bool(array.flags.c_contiguous and array.dtype.itemsize)
