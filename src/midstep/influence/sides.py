"""One batch on its way through a model: micro-batches, their records, their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from midstep.influence.batches import Microbatch
from midstep.influence.recorder import Record

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.tiles import Tile

__all__ = ["Side"]


@dataclass
class Side:
    """One batch on its way through the model, its micro-batches in order of length."""

    microbatches: list[Microbatch]
    seeds_NT: Tensor  # noqa: N815 - name ends in its shape
    """Weight of each token's log-probability in its sequence's score."""
    records: list[Record] = field(default_factory=list)
    logp: dict[int, Tensor] = field(default_factory=dict)
    """Token log-probabilities [B, R] by micro-batch."""

    @property
    def places(self) -> list[int]:
        """Rows of the batch, in the order that kernels are computed in."""
        return [place for each in self.microbatches for place in each.places]

    def __len__(self) -> int:
        return sum(len(each) for each in self.microbatches)

    def begin(self) -> None:
        """Fresh records for a new pass."""
        self.records = [Record(len(each), each.input_ids.shape[1]) for each in self.microbatches]

    def rows(self, tile: Tile, out_NRC: Tensor) -> None:  # noqa: N803 - name ends in its shape
        """Per-sequence gradients of a tile, all sequences of this side."""
        start = 0
        for record in self.records:
            part = out_NRC[start : start + record.sequences]
            uses = record.factors.get(tile.name, [])
            if not uses:
                part.zero_()
            for number, factor in enumerate(uses):
                factor.add_rows(part, tile, first=number == 0)
            start += record.sequences

    def drop(self, names: Sequence[str]) -> None:
        """Let go of the factors of these parameters."""
        for record in self.records:
            record.drop(names)

    def log_pi(self) -> Tensor:
        """[N] log-probability of each response, in the batch's own order."""
        sums = [self.logp[index].sum(1) for index in range(len(self.microbatches))]
        back = torch.tensor(self.places, device=sums[0].device).argsort()
        return torch.cat(sums)[back]
