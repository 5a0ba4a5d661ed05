"""Token sequences with their response tokens, and how they are split into micro-batches.

Shapes: N sequences, T tokens, B sequences of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Token sequences and the tokens whose log-probability counts.

    Args:
        input_ids: [N, T] token ids.
        response_mask: [N, T], true where the log-probability of that token counts.
        attention_mask: [N, T], true at real tokens, which are contiguous in each row. Padding may
            be on either side and changes nothing.

    >>> import torch
    >>> batch = SequenceBatch(torch.tensor([[5, 6, 7]]), torch.tensor([[0, 1, 1]]))
    >>> len(batch), batch.lengths.tolist(), batch.response_tokens.tolist()
    (1, [3], [2])
    """

    input_ids: Tensor
    response_mask: Tensor
    attention_mask: Tensor | None = None

    def __post_init__(self) -> None:
        _check_shapes(self)
        object.__setattr__(self, "response_mask", self.response_mask.bool())
        if self.attention_mask is not None:
            object.__setattr__(self, "attention_mask", self.attention_mask.bool())
        _check_responses(self)

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])

    @cached_property
    def starts(self) -> Tensor:
        """[N] column of each sequence's first real token."""
        if self.attention_mask is None:
            return self.input_ids.new_zeros(len(self)).long()
        return self.attention_mask.long().argmax(dim=1)

    @cached_property
    def lengths(self) -> Tensor:
        """[N] tokens up to the last response token. A causal model does not see what follows."""
        width = self.response_mask.shape[1]
        # argmax of the flipped mask is the distance of the last response token from the right edge.
        last = width - self.response_mask.flip(1).long().argmax(dim=1)
        return last - self.starts

    @property
    def response_tokens(self) -> Tensor:
        """[N] number of response tokens of each sequence."""
        return self.response_mask.sum(dim=1)

    def select(self, ids: Sequence[int] | Tensor) -> SequenceBatch:
        """The sequences of these rows, in this order."""
        import torch

        rows = torch.as_tensor(ids, dtype=torch.long, device=self.input_ids.device)
        mask = None if self.attention_mask is None else self.attention_mask[rows]
        return SequenceBatch(self.input_ids[rows], self.response_mask[rows], mask)

    def buckets(self, max_tokens: int, max_sequences: int | None = None) -> list[Microbatch]:
        """Micro-batches of similar length with at most `max_tokens` tokens each, padding included.

        A sequence longer than that gets a micro-batch of its own.
        """
        order = self.lengths.argsort(descending=True, stable=True).tolist()
        lengths = self.lengths.tolist()
        # Longest first: the first row of a group sets the width that all its rows are padded to.
        groups: list[list[int]] = []
        for row in order:
            group = groups[-1] if groups else []
            fits = len(group) < (max_sequences or len(order)) and group
            if fits and (len(group) + 1) * lengths[group[0]] <= max_tokens:
                group.append(row)
            else:
                groups.append([row])
        return [Microbatch(self, group) for group in groups]


class Microbatch:
    """Some sequences of a batch, aligned to the left and cut to the length of the longest.

    Args:
        batch: the whole batch.
        row_ids: rows of the batch.
    """

    def __init__(self, batch: SequenceBatch, row_ids: Sequence[int]) -> None:
        import torch

        self.batch, self.row_ids = batch, list(row_ids)
        device = batch.input_ids.device
        self._row_index = torch.tensor(self.row_ids, device=device)
        self.lengths = batch.lengths[self._row_index]
        span = torch.arange(int(self.lengths.max()), device=device)
        # Columns beyond the row's end repeat the last one; `valid` masks them.
        self._columns = (batch.starts[self._row_index, None] + span).clamp_max(
            batch.input_ids.shape[1] - 1
        )
        self.valid = span < self.lengths[:, None]
        self.input_ids = self.align(batch.input_ids)
        self.response_mask = self.align(batch.response_mask)

    def __len__(self) -> int:
        return len(self.row_ids)

    def align(self, values: Tensor) -> Tensor:
        """[B, T] values of this micro-batch from [N, T] of the whole batch, zero at padding."""
        rows = self._row_index.to(values.device)[:, None]
        picked = values[rows, self._columns.to(values.device)]
        return picked.masked_fill(~self.valid.to(values.device), 0)


def _check_shapes(batch: SequenceBatch) -> None:
    ids, response, attention = batch.input_ids, batch.response_mask, batch.attention_mask
    if ids.dim() != 2 or ids.shape[0] == 0 or ids.is_floating_point():
        raise ConfigError(
            f"input_ids must be integers of shape [sequences, tokens] with at least one sequence, "
            f"got {ids.dtype} {list(ids.shape)}"
        )
    for name, mask in (("response_mask", response), ("attention_mask", attention)):
        if mask is not None and mask.shape != ids.shape:
            raise ConfigError(
                f"{name} has shape {list(mask.shape)}, input_ids {list(ids.shape)}: "
                "pad both to one width"
            )


def _check_responses(batch: SequenceBatch) -> None:
    empty = (~batch.response_mask.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise ConfigError(
            f"sequence {empty[0]} has no response token, so it has no log-probability: "
            "leave it out or mark its response in response_mask"
        )
    mask = batch.attention_mask
    if mask is not None:
        # Starts of runs of real tokens: more than one means padding in the middle of a row.
        breaks = (mask.long().diff(dim=1) == 1).sum(dim=1) + mask[:, 0]
        if bool((breaks != 1).any()):
            raise ConfigError(
                f"attention_mask of sequence {int((breaks != 1).long().argmax())} is not one "
                "contiguous run: put padding at the edges, and packed sequences into separate rows"
            )
        outside = (batch.response_mask & ~mask).any(dim=1)
        if bool(outside.any()):
            raise ConfigError(
                f"response_mask of sequence {int(outside.long().argmax())} marks padding: "
                "mark only real tokens"
            )
    first = batch.response_mask.gather(1, batch.starts[:, None]).flatten()
    if bool(first.any()):
        raise ConfigError(
            f"the first token of sequence {int(first.long().argmax())} is marked as response, but "
            "no token before it predicts it: begin with a prompt or a start token"
        )
