"""One sequence with everything known about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from midstep.core.errors import ConfigError, FormatError

__all__ = ["Provenance", "SequenceRecord"]


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

    def described(self) -> dict[str, Any]:
        """Everything but what goes into tensors."""
        skipped = {*TENSOR_FIELDS, "provenance", "reward_parts", "metadata"}
        made = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in skipped
        }
        made["provenance"] = asdict(self.provenance)
        made["reward_parts"], made["metadata"] = dict(self.reward_parts), dict(self.metadata)
        return made

    @classmethod
    def restored(cls, described: Mapping[str, Any], **tensors: Any) -> SequenceRecord:
        """The record of `described` and what stood in the tensors."""
        try:
            rest = {key: value for key, value in described.items() if key != "provenance"}
            return cls(provenance=Provenance(**described["provenance"]), **rest, **tensors)
        except (KeyError, TypeError) as error:
            raise FormatError(f"not a sequence record: {error}") from None


TENSOR_FIELDS = ("prompt_tokens", "response_tokens", "logprobs", "entropies", "sampler_logprobs")
"""Fields that a batch file keeps in tensors."""
