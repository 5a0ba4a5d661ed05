"""A checksum of what a batch holds, for data without sample ids: streams and own iterables."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

MOST_BYTES = 4096
"""Bytes of one step that are read."""
PIECES = 16
"""A long tensor is read in so many pieces, evenly spread."""
MOST_LEAVES = 64


def batch_checksum(batches: Sequence[Any]) -> int | None:
    """CRC-32 of at most 4,096 bytes at fixed positions of the batches; None for an empty batch.

    Of tensors on a device only shape and type count: copying them would make the training wait.

    >>> same = batch_checksum([torch.arange(3)]) == batch_checksum([torch.arange(3)])
    >>> same, batch_checksum([torch.arange(3)]) == batch_checksum([torch.arange(3) + 1])
    (True, False)
    """
    leaves: list[Any] = []
    for leaf in _leaves(batches):
        leaves.append(leaf)
        if len(leaves) == MOST_LEAVES:
            break
    if not leaves:
        return None
    each = max(PIECES, MOST_BYTES // len(leaves))
    checksum = 0
    for leaf in leaves:
        checksum = _add(leaf, each, checksum)
    return checksum


def _leaves(value: Any) -> Iterator[Any]:
    """Tensors, arrays, numbers and texts, in a fixed order; a text for what cannot be read."""
    if isinstance(value, torch.Tensor):
        is_readable = value.device.type == "cpu" and value.layout is torch.strided
        yield value.detach() if is_readable and value.numel() else f"{value.dtype} {value.shape}"
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype != object and value.size:
            yield torch.frombuffer(bytearray(_some_bytes(value)), dtype=torch.uint8)
    elif isinstance(value, bool | int | float | str | bytes):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value[:MOST_LEAVES]:
            yield from _leaves(each)


def _some_bytes(array: Any) -> bytes:
    flat = np.asarray(array).reshape(-1)
    return flat[:: max(1, len(flat) // 512)].tobytes()[:MOST_BYTES]


def _add(leaf: Any, most: int, before: int) -> int:
    if isinstance(leaf, bytes):
        return zlib.crc32(leaf[:most], before)
    if not isinstance(leaf, torch.Tensor):
        return zlib.crc32(str(leaf).encode("utf-8", "surrogatepass")[:most], before)
    data = _flat_bytes(leaf).numpy().data
    if len(data) <= most:
        return zlib.crc32(data, before)
    size, last = most // PIECES, len(data) - most // PIECES
    for piece in range(PIECES):
        start = last * piece // (PIECES - 1)
        before = zlib.crc32(data[start : start + size], before)
    return before


def _flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes in the order of memory, without a copy where the tensor is dense."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_contiguous():
        return tensor.view(-1).view(torch.uint8)
    # A transposed batch: its first samples are enough, copying all of it would take time.
    while tensor.dim() > 1 and tensor.nbytes > 16 * MOST_BYTES:
        tensor = tensor[0]
    return tensor.reshape(-1).contiguous().view(torch.uint8)
