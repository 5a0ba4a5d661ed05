"""What a loop was given for one optimizer step: micro-batches, their ids and their loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SAMPLES_KEPT = 512
"""As many samples as a picture shows; further micro-batches are not held on to."""
BYTES_KEPT = 16 * 2**20
"""Nor are those beyond this size, the first excepted."""
MICRO_BATCHES_KEPT = 4096
"""A window without an optimizer step would grow for ever."""

_LABEL_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(kw_only=True, slots=True)
class Window:
    """Everything between two boundaries; micro-batches of one optimizer step share a window."""

    batches: list[Any] = field(default_factory=list)
    """References to the first micro-batches, never changed."""
    ids: list[int] | None = field(default_factory=list)
    """Ids of all samples; None once they are unknown for one of them."""
    scalars: dict[str, Any] = field(default_factory=dict)
    """What the loop logged."""
    count: int = 0
    """Micro-batches so far."""
    outputs: dict[int, Any] = field(default_factory=dict)
    """By micro-batch, the last output of the loss module."""

    def add(self, batch: Any, ids: Sequence[int] | None) -> None:
        """Note a micro-batch."""
        self.count += 1
        if self.count > MICRO_BATCHES_KEPT:
            return
        if self.count == 1 or self._has_room():
            self.batches.append(batch)
        if ids is None:
            self.ids = None
        elif self.ids is not None:
            self.ids.extend(ids)

    def _has_room(self) -> bool:
        samples = sum(count_samples(batch) or 0 for batch in self.batches)
        size = sum(tensor.nbytes for batch in self.batches for tensor in _tensors(batch))
        return samples < SAMPLES_KEPT and size < BYTES_KEPT

    def note_loss(self, output: Any) -> None:
        """The loss module gave `output` for the last micro-batch; a later one replaces it."""
        if hasattr(output, "detach") and output.is_floating_point():
            self.outputs[self.count] = output.detach()

    def loss(self) -> Any:
        """The logged loss, else the mean over the micro-batches of what the loss module gave."""
        if "loss" in self.scalars or not self.outputs:
            return self.scalars.get("loss")
        means = [output.mean() for output in self.outputs.values()]
        return sum(means[1:], start=means[0]) / len(means)

    def losses(self) -> Any:
        """Per-sample losses, where the loss module gives them and there is one batch."""
        outputs = list(self.outputs.values())
        if len(outputs) != 1 or self.count != 1:
            return None
        samples = count_samples(self.batches[0])
        return outputs[0] if outputs[0].dim() == 1 and len(outputs[0]) == samples else None


def join(batches: Sequence[Any]) -> Any:
    """Micro-batches as one, where their structure allows it; else the first of them."""
    if len(batches) == 1:
        return batches[0]
    try:
        return _joined(batches)
    except (RuntimeError, TypeError, ValueError, KeyError):
        return batches[0]  # ragged batches cannot be shown as one; the first rows are still true


def _joined(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if hasattr(first, "detach"):
        import torch

        return torch.cat([part.detach() for part in parts])
    if isinstance(first, Mapping):
        return {key: _joined([part[key] for part in parts]) for key in first}
    if isinstance(first, list | tuple) and any(True for _ in _tensors(first)):
        return [_joined(column) for column in zip(*parts, strict=True)]
    return [item for part in parts for item in part]


def _tensors(batch: Any) -> Iterator[Any]:
    """Every tensor in a batch, in order."""
    if hasattr(batch, "nbytes") and hasattr(batch, "dim"):
        yield batch
    elif isinstance(batch, Mapping):
        for item in batch.values():
            yield from _tensors(item)
    elif isinstance(batch, list | tuple):
        for item in batch:
            yield from _tensors(item)


def count_samples(batch: Any) -> int | None:
    """How many samples a batch has: the length of its first tensor."""
    for first in _tensors(batch):
        return len(first) if first.dim() else None
    return None


def labels_of(batch: Any) -> Any:
    """What looks like labels: the second of a pair, or an entry named so; one per sample."""
    found: Any = None
    if isinstance(batch, Mapping):
        found = next((batch[key] for key in _LABEL_KEYS if key in batch), None)
    elif isinstance(batch, list | tuple) and len(batch) > 1:
        found = batch[1]
    if hasattr(found, "dim") and found.dim() == 1 and len(found) == count_samples(batch):
        return found
    return None
