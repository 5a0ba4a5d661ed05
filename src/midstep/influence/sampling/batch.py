"""Many sequences together: padded tensors, masks, and lookups by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.influence.sampling.records import SequenceRecord

if TYPE_CHECKING:
    from midstep.influence.batches import SequenceBatch

__all__ = ["BatchFingerprint", "GeneratedBatch"]


@dataclass(frozen=True, kw_only=True)
class BatchFingerprint:
    """The checkpoint that a batch was sampled and scored with."""

    weights: str
    """Hash of the model's weights."""
    tokenizer: str
    """Hash of the tokenizer."""

    def difference(self, other: BatchFingerprint) -> str | None:
        """What differs, in words; None when nothing does."""
        if self.tokenizer != other.tokenizer:
            return "the tokenizer is another one"
        return "the weights are others" if self.weights != other.weights else None


@dataclass(frozen=True, kw_only=True)
class GeneratedBatch:
    """Sequences with their scores; tensors are made when first asked for.

    Sequences stand prompt first, then response, then padding.
    """

    records: tuple[SequenceRecord, ...]
    """One a sequence, in order."""
    pad_id: int = 0
    """What stands where a sequence has ended."""
    fingerprint: BatchFingerprint | None = None
    """The checkpoint that scored it; None: not known."""
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    """How it was sampled, and how that went."""

    def __post_init__(self) -> None:
        if not self.records:
            raise ConfigError("a batch needs at least one sequence, got none")
        if len(self._places) != len(self.records):
            ids = [record.sequence_id for record in self.records]
            doubled = next(one for one in ids if ids.count(one) > 1)
            raise ConfigError(f"sequence id {doubled!r} stands twice in a batch; ids name one each")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {record.sequence_id: at for at, record in enumerate(self.records)}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[SequenceRecord]:
        return iter(self.records)

    @property
    def sequence_ids(self) -> tuple[str, ...]:
        """Names of the sequences, in order."""
        return tuple(self._places)

    def index_of(self, sequence_id: str) -> int:
        """The place of a sequence."""
        if sequence_id not in self._places:
            known = ", ".join(list(self._places)[:4])
            raise ConfigError(
                f"no sequence {sequence_id!r} in this batch of {len(self)}; ids are {known}, …"
            )
        return self._places[sequence_id]

    def record(self, sequence_id: str) -> SequenceRecord:
        """The record of a sequence."""
        return self.records[self.index_of(sequence_id)]

    def by_prompt(self, global_prompt_id: str) -> tuple[SequenceRecord, ...]:
        """All responses to a prompt; empty when it is not in the batch."""
        return tuple(
            record
            for record in self.records
            if record.provenance.global_prompt_id == global_prompt_id
        )

    @cached_property
    def input_ids(self) -> Tensor:
        """Tokens [N, T]."""
        return _padded(
            [[*record.prompt_tokens, *record.response_tokens] for record in self.records],
            self.pad_id,
        )

    @cached_property
    def attention_mask(self) -> Tensor:
        """True for tokens, False for padding, [N, T]."""
        lengths = [len(one.prompt_tokens) + len(one.response_tokens) for one in self.records]
        return _padded([[1] * length for length in lengths], 0).bool()

    @cached_property
    def response_mask(self) -> Tensor:
        """True for tokens of the response, [N, T]."""
        marks = [
            [0] * len(one.prompt_tokens) + [1] * len(one.response_tokens) for one in self.records
        ]
        return _padded(marks, 0).bool()

    @cached_property
    def rewards(self) -> Tensor:
        """Rewards [N] in float64; NaN where a sequence was not judged."""
        return self._column("reward")

    @cached_property
    def advantages(self) -> Tensor:
        """Advantages [N] in float64; NaN where there are none."""
        return self._column("advantage")

    @cached_property
    def weights(self) -> Tensor:
        """Weights w [N] in float64: the update's loss is −Σ w log π; NaN where there are none."""
        return self._column("weight")

    @cached_property
    def normalisers(self) -> Tensor:
        """What the loss multiplies each advantage by, [N] in float64; NaN where not known."""
        return self._column("normaliser")

    @cached_property
    def logprobs(self) -> Tensor:
        """The log π of each sequence, [N] in float64."""
        return torch.tensor([one.logprob for one in self.records], dtype=torch.float64)

    def _column(self, name: str) -> Tensor:
        values = [getattr(record, name) for record in self.records]
        return torch.tensor(
            [float("nan") if value is None else value for value in values], dtype=torch.float64
        )

    def sequence_batch(self) -> SequenceBatch:
        """The tensors alone, as the kernels take them."""
        from midstep.influence.batches import SequenceBatch

        return SequenceBatch(
            input_ids=self.input_ids,
            response_mask=self.response_mask,
            attention_mask=self.attention_mask,
        )

    def clone_with_subset(self, sequence_ids: Sequence[str]) -> GeneratedBatch:
        """A batch of these sequences, in this order; names, weights and scores stay."""
        records = tuple(self.record(one) for one in sequence_ids)
        return replace(self, records=records)

    def with_records(self, records: Sequence[SequenceRecord]) -> GeneratedBatch:
        """The same batch with other records."""
        return replace(self, records=tuple(records))


def _padded(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])
