"""Scored sequences, one by one and as a batch with padded tensors, masks and lookups by id."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError, FormatError
from midstep.influence.fingerprints import BatchFingerprint
from midstep.influence.gradients.sequences import SequenceBatch


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The origin of a sequence."""

    global_prompt_id: str
    """Id of the prompt, the same in every batch."""
    split: str
    """Part of the prompt set, or `custom`."""
    prompt_index: int
    """Index of the prompt in its batch."""
    completion_index: int
    """Index among the responses to the prompt in this batch."""
    source: str = "generated"
    """generated, reference, or given."""


@dataclass(frozen=True, kw_only=True)
class SequenceRecord:
    """A prompt and a response, scored token by token.

    >>> record = SequenceRecord(
    ...     sequence_id="U-000-01", prompt_text="1+1=", response_text="2",
    ...     prompt_tokens=(5, 6), response_tokens=(7, 2), logprobs=(-0.5, -0.25),
    ...     entropies=(0.1, 0.1),
    ...     provenance=Provenance(
    ...         global_prompt_id="p", split="train", prompt_index=0, completion_index=1),
    ... )
    >>> record.logprob
    -0.75
    """

    sequence_id: str
    """Stable id within its batch: U-000-01 is the second response to the first prompt."""
    prompt_text: str
    """The prompt as the model saw it, template applied."""
    response_text: str
    """The response without special tokens."""
    prompt_tokens: tuple[int, ...]
    """Tokens of the prompt."""
    response_tokens: tuple[int, ...]
    """Tokens whose log-probability counts, including the end token."""
    logprobs: tuple[float, ...]
    """Log-probability of each response token under the model, teacher-forced."""
    entropies: tuple[float, ...]
    """Entropy of the model's distribution at each response token."""
    provenance: Provenance
    """Its origin."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability under the sampler (with temperature); None if it was not drawn."""
    finished: bool = True
    """Whether the response ended with the end token."""
    reward: float | None = None
    """Reward by the rules; None if it was not judged."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """Result of each rule, before weighting."""
    advantage: float | None = None
    """Reward above the baseline, as the scheme defines it; None outside of updates."""
    normaliser: float | None = None
    """Factor of the advantage in the trainer's loss: 1/N, 1/(N |o|), …"""
    weight: float | None = None
    """Advantage × normaliser, w of the update: the loss is −Σ w log π."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other information about it."""

    def __post_init__(self) -> None:
        if not self.prompt_tokens:
            raise ConfigError(f"{self.sequence_id} has an empty prompt; give it at least one token")
        if not self.response_tokens:
            raise ConfigError(
                f"{self.sequence_id} has an empty response, so there is no log-probability to "
                "explain; give a response of at least one token"
            )
        # One NaN would make the whole kernel term NaN, so it is refused where it enters.
        for name in ("reward", "advantage", "normaliser", "weight"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ConfigError(
                    f"{name} of {self.sequence_id} is {value}; give a finite number, or leave the "
                    "sequence out of the batch"
                )
        for name in ("logprobs", "entropies", "sampler_logprobs"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.response_tokens):
                raise ConfigError(
                    f"{self.sequence_id} has {len(values)} {name} for "
                    f"{len(self.response_tokens)} response tokens"
                )

    @property
    def logprob(self) -> float:
        """The log π(response | prompt), the sum over its tokens."""
        return sum(self.logprobs)

    def summary(self) -> dict[str, Any]:
        """The fields of a sequence in results.json that batches of all kinds share."""
        return {
            "sequence_id": self.sequence_id,
            "global_prompt_id": self.provenance.global_prompt_id,
            "prompt": self.prompt_text,
            "response": self.response_text,
            "reward": self.reward,
            "logprob": self.logprob,
            "entropy": sum(self.entropies) / len(self.entropies),
        }

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data, except those stored in tensors."""
        plain = {name: each for name, each in vars(self).items() if name not in TENSOR_FIELDS}
        return {**plain, "provenance": asdict(self.provenance)}

    @classmethod
    def from_json(cls, description: Mapping[str, Any], **tensors: Any) -> SequenceRecord:
        """The record from its description and the values of its tensors."""
        try:
            rest = {key: value for key, value in description.items() if key != "provenance"}
            return cls(provenance=Provenance(**description["provenance"]), **rest, **tensors)
        except (KeyError, TypeError) as error:
            raise FormatError(f"not a sequence record: {error}") from None


TENSOR_FIELDS = ("prompt_tokens", "response_tokens", "logprobs", "entropies", "sampler_logprobs")
"""Fields that a batch file stores in tensors."""


@dataclass(frozen=True, kw_only=True)
class GeneratedBatch:
    """Sequences with their scores. Tensors are made when first used.

    A row has the prompt first, then the response, then padding.
    """

    records: tuple[SequenceRecord, ...]
    """One record per sequence."""
    pad_id: int = 0
    """Token id of the padding."""
    fingerprint: BatchFingerprint | None = None
    """The checkpoint that scored it; None if unknown."""
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    """Settings and counts of the sampling."""

    def __post_init__(self) -> None:
        if not self.records:
            raise ConfigError("a batch needs at least one sequence, got none")
        if len(self._index_by_id) != len(self.records):
            ids = [record.sequence_id for record in self.records]
            duplicate = next(one for one in ids if ids.count(one) > 1)
            raise ConfigError(
                f"sequence id {duplicate!r} occurs twice in a batch; ids must be unique"
            )

    @cached_property
    def _index_by_id(self) -> dict[str, int]:
        return {record.sequence_id: at for at, record in enumerate(self.records)}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[SequenceRecord]:
        return iter(self.records)

    @property
    def sequence_ids(self) -> tuple[str, ...]:
        """Ids of the sequences, in order."""
        return tuple(self._index_by_id)

    def index_of(self, sequence_id: str) -> int:
        """The row of a sequence."""
        if sequence_id not in self._index_by_id:
            known = ", ".join(list(self._index_by_id)[:4])
            raise ConfigError(
                f"no sequence {sequence_id!r} in this batch of {len(self)}; ids are {known}, …"
            )
        return self._index_by_id[sequence_id]

    def record(self, sequence_id: str) -> SequenceRecord:
        """The record of a sequence."""
        return self.records[self.index_of(sequence_id)]

    def by_prompt(self, global_prompt_id: str) -> tuple[SequenceRecord, ...]:
        """All responses to a prompt; empty if the batch does not have it."""
        return tuple(
            record
            for record in self.records
            if record.provenance.global_prompt_id == global_prompt_id
        )

    @cached_property
    def input_ids(self) -> Tensor:
        """Tokens [N, T]."""
        return _pad_right(
            [[*record.prompt_tokens, *record.response_tokens] for record in self.records],
            self.pad_id,
        )

    @cached_property
    def attention_mask(self) -> Tensor:
        """True for tokens, False for padding, [N, T]."""
        lengths = [len(one.prompt_tokens) + len(one.response_tokens) for one in self.records]
        return _pad_right([[1] * length for length in lengths], 0).bool()

    @cached_property
    def response_mask(self) -> Tensor:
        """True for tokens of the response, [N, T]."""
        marks = [
            [0] * len(one.prompt_tokens) + [1] * len(one.response_tokens) for one in self.records
        ]
        return _pad_right(marks, 0).bool()

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
        """Factor of each advantage in the loss, [N] in float64; NaN where unknown."""
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
        """The tensors alone, for the kernels."""
        return SequenceBatch(
            input_ids=self.input_ids,
            response_mask=self.response_mask,
            attention_mask=self.attention_mask,
        )

    def clone_with_subset(self, sequence_ids: Sequence[str]) -> GeneratedBatch:
        """A batch of these sequences, in this order, with the same ids, weights and scores."""
        records = tuple(self.record(one) for one in sequence_ids)
        return replace(self, records=records)


def _pad_right(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])
