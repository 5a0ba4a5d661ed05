"""The micro-batches of one optimizer step: their samples, ids, labels and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SAMPLES_KEPT = 512
"""A batch picture shows at most this many samples; later micro-batches are not kept."""
BYTES_KEPT = 16 * 2**20
"""Micro-batches after this many bytes are not kept either, except for the first one."""
MICRO_BATCHES_KEPT = 4096
"""Bounds the memory of a loop that never reaches an optimizer step."""

_LABEL_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(kw_only=True, slots=True)
class Window:
    """What happens between two step boundaries: the micro-batches of one optimizer step."""

    batches: list[Any] = field(default_factory=list)
    """References to the first micro-batches; they are never changed."""
    ids: list[int] | None = field(default_factory=list)
    """Ids of all samples; None as soon as the ids of one micro-batch are unknown."""
    scalars: dict[str, Any] = field(default_factory=dict)
    """The values that the loop logged."""
    count: int = 0
    """How many micro-batches there were so far."""
    outputs: dict[int, Any] = field(default_factory=dict)
    """The last output of the loss module, by number of the micro-batch."""

    def add(self, batch: Any, ids: Sequence[int] | None) -> None:
        """Record a micro-batch."""
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
        """Record an output of the loss module; the last one of a micro-batch counts."""
        if hasattr(output, "detach") and output.is_floating_point():
            self.outputs[self.count] = output.detach()

    def loss(self) -> Any:
        """The logged loss, or else the mean of the loss module's outputs over the micro-batches."""
        if "loss" in self.scalars or not self.outputs:
            return self.scalars.get("loss")
        means = [output.mean() for output in self.outputs.values()]
        return sum(means[1:], start=means[0]) / len(means)

    def losses(self) -> Any:
        """Per-sample losses, if the loss module returns them and there is one micro-batch."""
        outputs = list(self.outputs.values())
        if len(outputs) != 1 or self.count != 1:
            return None
        samples = count_samples(self.batches[0])
        return outputs[0] if outputs[0].dim() == 1 and len(outputs[0]) == samples else None


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
    """How many samples a batch has: the length of its first tensor; None if it has no tensor."""
    for first in _tensors(batch):
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
