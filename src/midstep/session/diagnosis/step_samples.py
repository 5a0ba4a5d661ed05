"""Which sample of the step is in which row of which call, and what its loss is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.data.batch_structure import count_samples, tensors_of
from midstep.explore.diagnosis.changes import SampleShare
from midstep.explore.diagnosis.sample_inputs import broken_rows
from midstep.session.diagnosis.cause_text import SampleNames
from midstep.session.diagnosis.held_step import HeldCall

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class StepSamples:
    """The samples of a step."""

    batches: Sequence[Any]
    """Its micro-batches."""
    names: SampleNames
    calls: Sequence[HeldCall] = ()
    losses: Sequence[float] = ()
    """The loss of each sample; empty if losses are unknown."""
    shares: Sequence[float] | None = None
    """The share of each sample in the loss of the step; None if shares are unknown."""

    def first_row(self, call: HeldCall | None) -> int | None:
        """The position in the step of the first sample of a call; None if that is not known."""
        if call is None or not self.batches:
            return None
        if len(self.batches) == 1:
            return 0
        same = [each for each in self.calls if each.module is call.module]
        if len(same) != len(self.batches):
            return None
        before = self.batches[: next(at for at, each in enumerate(same) if each is call)]
        return sum(count_samples(batch) or 0 for batch in before)

    def positions_in(self, tensor: Tensor | None, call: HeldCall | None) -> list[int]:
        """The samples whose rows of a tensor are not finite; empty if all are, or none is."""
        start = self.first_row(call)
        if tensor is None or start is None or not tensor.dim():
            return []
        at = next((i for i, each in enumerate(self._starts()) if each == start), 0)
        if len(tensor) != count_samples(self.batches[at]):
            return []  # its first dimension does not count samples
        rows = broken_rows(tensor)
        return [start + row for row in rows] if 0 < len(rows) < len(tensor) else []

    def _starts(self) -> list[int]:
        starts, total = [], 0
        for batch in self.batches:
            starts.append(total)
            total += count_samples(batch) or 0
        return starts

    def row_of(self, tensor: Tensor | None, call: HeldCall | None, position: int) -> Tensor | None:
        """The row of one sample in an output."""
        start = self.first_row(call)
        if tensor is None or start is None or not tensor.dim():
            return None
        row = position - start
        return tensor[row] if 0 <= row < len(tensor) else None

    def positions_of_broken_losses(self) -> list[int]:
        """The samples whose loss is not finite, as far as losses are known."""
        broken = [at for at, each in enumerate(self.losses) if not math.isfinite(each)]
        return broken if len(broken) < len(self.losses) else []

    def largest_share(self) -> SampleShare | None:
        """The sample with the largest share of the loss; None if shares are unknown."""
        shares = self.shares or ()
        if len(shares) < 2:
            return None
        at = max(range(len(shares)), key=shares.__getitem__)
        return SampleShare(share=shares[at], name=self.names.sample(at), samples=len(shares))


def broken_argument(call: HeldCall | None) -> Tensor | None:
    """The first argument of a call that is not finite."""
    if call is None:
        return None
    tensors: list[Tensor] = [*tensors_of(call.args), *tensors_of(dict(call.kwargs))]
    return next((each for each in tensors if broken_rows(each)), None)
