"""A checksum of 1,024 elements of the weights, cheap enough to be taken while a training runs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import nn

from midstep.session.late_parameters import is_uninitialized

ELEMENTS = 1024
TENSORS = 64
"""Tensors that are sampled at most; reading a little of very many would take longer than a step."""


class PendingChecksum:
    """A checksum whose bytes are on their way from a device. Reading `value` waits for them."""

    def __init__(self, sample: torch.Tensor) -> None:
        self._host = torch.empty(sample.shape, dtype=sample.dtype, pin_memory=True)
        self._host.copy_(sample, non_blocking=True)
        self._arrival: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        # Of its own device, which need not be the current one.
        self._arrival.record(torch.cuda.current_stream(sample.device))

    def is_ready(self) -> bool:
        """Whether the bytes are on the host. Does not wait."""
        return bool(self._arrival.query())

    @property
    def value(self) -> int:
        """The checksum."""
        self._arrival.synchronize()
        return zlib.crc32(self._host.numpy().data)


class WeightsSample:
    """Reads the same elements of a model's parameters each time.

    Args:
        model: only read.

    >>> model = nn.Linear(2, 1)
    >>> sample = WeightsSample(model)
    >>> before = sample.checksum()
    >>> _ = nn.init.zeros_(model.weight)
    >>> sample.checksum() == before
    False
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._pointers: list[int] = []
        self._views: list[torch.Tensor] = []

    def checksum(self) -> int | PendingChecksum | None:
        """CRC-32 of the sampled elements; None if the model has no readable parameters."""
        parameters = [p for p in self._model.parameters() if not is_uninitialized(p) and p.numel()]
        # Views are kept as long as the weights stay where they are in memory.
        pointers = [p.data_ptr() for p in parameters]
        if pointers != self._pointers:
            self._pointers, self._views = pointers, _views(parameters)
        return _checksum(self._views)


def sample_checksum(tensors: Sequence[torch.Tensor]) -> int | PendingChecksum | None:
    """CRC-32 of 1,024 elements of some tensors; None if there is nothing to read.

    >>> sample_checksum([torch.zeros(3)]) == sample_checksum([torch.zeros(3)])
    True
    """
    return _checksum(_views(tensors))


def _checksum(views: Sequence[torch.Tensor]) -> int | PendingChecksum | None:
    if not views:
        return None
    kinds = groupby(views, key=lambda view: view.dtype)
    parts = [torch.cat(list(each)).view(torch.uint8) for _, each in kinds]
    together = parts[0] if len(parts) == 1 else torch.cat(parts)
    if together.device.type == "cuda":
        return PendingChecksum(together)
    return zlib.crc32(together.cpu().numpy().data)


def _views(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Evenly spread elements of evenly spread tensors, those of one device."""
    local = [_local(each) for each in parameters]
    tensors = [t for t in local if t.layout is torch.strided and t.device == local[0].device]
    if not tensors or tensors[0].device.type == "meta":
        return []
    if len(tensors) > TENSORS:
        last = len(tensors) - 1
        tensors = [tensors[last * index // (TENSORS - 1)] for index in range(TENSORS)]
    each = ELEMENTS // len(tensors)
    return [_spread(tensor, each) for tensor in tensors]


def _local(parameter: torch.Tensor) -> torch.Tensor:
    """The part of a sharded tensor that is here, or the tensor itself."""
    tensor = parameter.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _spread(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """A view of `count` elements; of a tensor with gaps in memory, of its first row."""
    while tensor.dim() > 1 and not _is_dense(tensor):
        tensor = tensor[0]
    if _is_dense(tensor):  # in the order of memory, also for channels_last
        tensor = tensor.as_strided((tensor.numel(),), (1,))
    tensor = tensor.reshape(-1)
    return tensor[:: max(1, len(tensor) // count)][:count]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one piece of memory without gaps."""
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((size - 1) * stride for size, stride in dimensions) + 1 == tensor.numel()
