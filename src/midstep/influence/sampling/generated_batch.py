"""Many sequences together: padded tensors, masks, and lookups by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError, FormatError
from midstep.influence.fingerprints import BatchFingerprint

if TYPE_CHECKING:
    from midstep.influence.gradients.sequences import SequenceBatch


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a sequence comes from."""

    global_prompt_id: str
    """The prompt, the same in every batch."""
    split: str
    """Part of the prompt set, or `custom`."""
    prompt_index: int
    """Place of the prompt in its batch."""
    completion_index: int
    """Which of the prompt's responses in this batch."""
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
    """Stable name within its batch: U-000-01 is the second response to the first prompt."""
    prompt_text: str
    """The prompt as the model saw it, template applied."""
    response_text: str
    """The response without special tokens."""
    prompt_tokens: tuple[int, ...]
    """Tokens of the prompt."""
    response_tokens: tuple[int, ...]
    """Tokens whose log-probability counts, the end token among them."""
    logprobs: tuple[float, ...]
    """Log-probability of each response token under the model, teacher-forced."""
    entropies: tuple[float, ...]
    """Entropy of the distribution that each response token was taken from."""
    provenance: Provenance
    """Where it comes from."""
    sampler_logprobs: tuple[float, ...] | None = None
    """Log-probability under the sampler (temperature), as it was drawn; None: not drawn."""
    finished: bool = True
    """The response ended by itself."""
    reward: float | None = None
    """What the rules gave; None: not judged."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """What each rule gave, before weighting."""
    advantage: float | None = None
    """Better than the baseline by so much; None: not part of an update."""
    normaliser: float | None = None
    """What the trainer's loss multiplies the advantage by: 1/N, 1/(N |o|), …"""
    weight: float | None = None
    """Advantage × normaliser, w of the update: the loss is −Σ w log π."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else was said about it."""

    def __post_init__(self) -> None:
        if not self.prompt_tokens:
            raise ConfigError(f"{self.sequence_id} has an empty prompt; give it at least one token")
        if not self.response_tokens:
            raise ConfigError(
                f"{self.sequence_id} has an empty response, so there is no log-probability to "
                "explain; give a response of at least one token"
            )
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
        """What results.json says of a sequence, whichever batch it belongs to."""
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
        """Everything but what goes into tensors."""
        skipped = {*TENSOR_FIELDS, "provenance", "reward_parts", "metadata"}
        plain = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in skipped
        }
        plain["provenance"] = asdict(self.provenance)
        plain["reward_parts"], plain["metadata"] = dict(self.reward_parts), dict(self.metadata)
        return plain

    @classmethod
    def from_json(cls, description: Mapping[str, Any], **tensors: Any) -> SequenceRecord:
        """The record of `described` and what stood in the tensors."""
        try:
            rest = {key: value for key, value in description.items() if key != "provenance"}
            return cls(provenance=Provenance(**description["provenance"]), **rest, **tensors)
        except (KeyError, TypeError) as error:
            raise FormatError(f"not a sequence record: {error}") from None


TENSOR_FIELDS = ("prompt_tokens", "response_tokens", "logprobs", "entropies", "sampler_logprobs")
"""Fields that a batch file keeps in tensors."""


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
        if len(self._index_by_id) != len(self.records):
            ids = [record.sequence_id for record in self.records]
            duplicate = next(one for one in ids if ids.count(one) > 1)
            raise ConfigError(
                f"sequence id {duplicate!r} stands twice in a batch; ids name one each"
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
        """Names of the sequences, in order."""
        return tuple(self._index_by_id)

    def index_of(self, sequence_id: str) -> int:
        """The place of a sequence."""
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
        """All responses to a prompt; empty when it is not in the batch."""
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
        from midstep.influence.gradients.sequences import SequenceBatch

        return SequenceBatch(
            input_ids=self.input_ids,
            response_mask=self.response_mask,
            attention_mask=self.attention_mask,
        )

    def clone_with_subset(self, sequence_ids: Sequence[str]) -> GeneratedBatch:
        """A batch of these sequences, in this order; names, weights and scores stay."""
        records = tuple(self.record(one) for one in sequence_ids)
        return replace(self, records=records)


def _pad_right(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])
