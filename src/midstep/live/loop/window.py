"""`Window`: what happens between two step boundaries of a loop under `attach`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.data.batch_structure import count_samples, tensors_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLES_KEPT = 512
"""A batch picture shows at most this many samples; later micro-batches are not kept."""
BYTES_KEPT = 16 * 2**20
"""Micro-batches after this many bytes are not kept either, except for the first one."""
BYTES_KEPT_FOR_STOP = 256 * 2**20
"""The same limit while a breakpoint may stop the step: then all its inputs are checked."""
MICRO_BATCHES_KEPT = 4096
"""Bounds the memory of a loop that never reaches an optimizer step."""


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
    optimizer_steps: int = 0
    """How often the optimizer stepped."""
    used_lr: Any = None
    """The learning rate of its last step."""
    is_declared: bool = False
    """Whether the batches are those of `run.batch`."""

    def declare(self, batch: Any, *, keep: bool = False) -> None:
        """Record what the step trains on, in place of what the loader gave."""
        if not self.is_declared:
            self.is_declared, self.count, self.ids = True, 0, None
            self.batches.clear()
            self.outputs.clear()
        self._add(batch, None, keep=keep)

    def add(self, batch: Any, ids: Sequence[int] | None, *, keep: bool = False) -> None:
        """Record a micro-batch of the loader.

        Args:
            batch: what it gave.
            ids: of its samples.
            keep: whether the step may be looked at as a whole.
        """
        if not self.is_declared:
            self._add(batch, ids, keep=keep)

    def _add(self, batch: Any, ids: Sequence[int] | None, *, keep: bool) -> None:
        self.count += 1
        if self.count > MICRO_BATCHES_KEPT:
            return
        if self.count == 1 or self._has_room(keep=keep):
            self.batches.append(batch)
        if ids is None:
            self.ids = None
        elif self.ids is not None:
            self.ids.extend(ids)

    def _has_room(self, *, keep: bool) -> bool:
        samples = sum(count_samples(batch) or 0 for batch in self.batches)
        size = sum(tensor.nbytes for batch in self.batches for tensor in tensors_of(batch))
        if keep:
            return bool(size < BYTES_KEPT_FOR_STOP)
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

    def position(self) -> tuple[int, Any] | None:
        """Number and batch of the micro-batch in training; None before the first and afterwards."""
        if not self.count or self.optimizer_steps:
            return None
        return self.count, self.batches[-1] if len(self.batches) == self.count else None


def integer_ids(ids: Sequence[Any] | None) -> Sequence[int] | None:
    """Ids if they are integers, else None: a breakpoint cannot look for names or pairs."""
    if ids is None or isinstance(ids, range) or set(map(type, ids)) <= {int}:
        return ids
    return None
