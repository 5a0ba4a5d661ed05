"""The micro-batches of one optimizer step: their samples, ids, labels and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LABEL_KEYS = ("labels", "label", "targets", "target", "y")


def join(batches: Sequence[Any]) -> Any:
    """Concatenate micro-batches if their structure allows it; if not, return the first."""
    if len(batches) == 1:
        return batches[0]
    try:
        return _joined(batches)
    except (RuntimeError, TypeError, ValueError, KeyError):
        # Batches of different shapes cannot be shown as one. The first one is still correct.
        return batches[0]


def _joined(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if hasattr(first, "detach"):
        import torch

        return torch.cat([part.detach() for part in parts])
    if isinstance(first, Mapping):
        return {key: _joined([part[key] for part in parts]) for key in first}
    if isinstance(first, list | tuple) and any(True for _ in tensors_of(first)):
        return [_joined(column) for column in zip(*parts, strict=True)]
    return [item for part in parts for item in part]


def tensors_of(batch: Any) -> Iterator[Any]:
    """Every tensor in a batch, in order; sparse ones are left out."""
    if hasattr(batch, "dim") and _has_size(batch):
        yield batch
    elif isinstance(batch, Mapping):
        for item in batch.values():
            yield from tensors_of(item)
    elif isinstance(batch, list | tuple):
        for item in batch:
            yield from tensors_of(item)


def _has_size(tensor: Any) -> bool:
    try:
        return tensor.nbytes is not None
    except (AttributeError, RuntimeError):  # a sparse tensor raises the latter
        return False


def count_samples(batch: Any) -> int | None:
    """How many samples a batch has: the length of its first tensor; None if it has no tensor."""
    for first in tensors_of(batch):
        return len(first) if first.dim() else None
    return None


def labels_of(batch: Any) -> Any:
    """The labels of a batch, one per sample: its second part, or an entry such as `labels`."""
    labels: Any = None
    if isinstance(batch, Mapping):
        labels = next((batch[key] for key in _LABEL_KEYS if key in batch), None)
    elif isinstance(batch, list | tuple) and len(batch) > 1:
        labels = batch[1]
    if hasattr(labels, "dim") and labels.dim() == 1 and len(labels) == count_samples(batch):
        return labels
    return None
