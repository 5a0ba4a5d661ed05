"""Responses to prompts: sampled from the model, taken from a reference, or given as text."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from midstep.core.errors import ConfigError
from midstep.core.random_streams import stream_key
from midstep.influence.sampling.decoding import (
    DecodedSequence,
    DecodingConfig,
    DrawKey,
    decode,
)
from midstep.influence.sampling.generated_batch import Provenance, SequenceRecord
from midstep.influence.sampling.language_models import LanguageModel
from midstep.influence.sampling.prompt_sets import Prompt
from midstep.influence.sampling.tokenizers import Tokenizer

_log = logging.getLogger("midstep.influence")
Responses = Literal["generated", "reference"] | Sequence[str]
"""Sampled from the model, taken from the prompt set, or given as one text per prompt."""


@dataclass(frozen=True)
class UnscoredSequence:
    """A sequence before it is scored."""

    prompt: Prompt
    prompt_index: int
    completion_index: int
    prompt_tokens: list[int]
    response: DecodedSequence
    source: str

    def record(self, prefix: str, **scored: Any) -> SequenceRecord:
        """The record of this sequence, with the fields of scoring and judging."""
        return SequenceRecord(
            sequence_id=f"{prefix}-{self.prompt_index:03d}-{self.completion_index:02d}",
            prompt_text=self.prompt.text,
            prompt_tokens=tuple(self.prompt_tokens),
            response_tokens=tuple(self.response.tokens),
            sampler_logprobs=tuple(self.response.sampler_logprobs) or None,
            finished=self.response.finished,
            metadata=dict(self.prompt.metadata),
            provenance=Provenance(
                global_prompt_id=self.prompt.global_prompt_id,
                split=self.prompt.split,
                prompt_index=self.prompt_index,
                completion_index=self.completion_index,
                source=self.source,
            ),
            **scored,
        )


def custom_prompt(text: str, metadata: Mapping[str, Any]) -> Prompt:
    """A user's prompt. Its id is a hash of its text."""
    return Prompt(
        global_prompt_id=f"custom-{stream_key(0, text):016x}",
        split="custom",
        text=text,
        metadata=metadata,
    )


def sample_responses(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    completions: int,
    seed: int,
    config: DecodingConfig,
) -> list[UnscoredSequence]:
    """Responses sampled from the model, `completions` per prompt.

    A prompt that occurs twice in the batch continues its random stream, so no draw is repeated.
    """
    draws: Counter[str] = Counter()
    pending, draw_keys = [], []
    for at, prompt in enumerate(prompts):
        for completion in range(completions):
            draw_keys.append(DrawKey(seed, prompt.global_prompt_id, draws[prompt.global_prompt_id]))
            # Counted per prompt: neighbours in the batch do not change a prompt's draws.
            draws[prompt.global_prompt_id] += 1
            pending.append((prompt, at, completion, _prompt_tokens(tokenizer, prompt)))
    decoded = decode(
        model,
        [tokens for *_, tokens in pending],
        draw_keys,
        end_id=tokenizer.end_id,
        pad_id=tokenizer.pad_id,
        config=config,
    )
    return [
        UnscoredSequence(*one, response, "generated")
        for one, response in zip(pending, decoded, strict=True)
    ]


def written_responses(
    tokenizer: Tokenizer, prompts: Sequence[Prompt], responses: Responses
) -> list[UnscoredSequence]:
    """Reference responses with their end token, or texts as they were given."""
    source = "reference" if responses == "reference" else "given"
    texts = [_reference(one) for one in prompts] if source == "reference" else responses
    if isinstance(texts, str) or len(texts) != len(prompts):
        raise ConfigError(
            f"responses must be 'generated', 'reference' or one text for each of the "
            f"{len(prompts)} prompts, got {responses!r:.80}"
        )
    return [
        written_response(
            tokenizer, prompt, text, at=at, closed=source == "reference", source=source
        )
        for at, (prompt, text) in enumerate(zip(prompts, texts, strict=True))
    ]


def written_response(
    tokenizer: Tokenizer,
    prompt: Prompt,
    text: str,
    *,
    at: int = 0,
    closed: bool = False,
    source: str = "given",
) -> UnscoredSequence:
    """A given response; `closed` adds the end token."""
    unknown = tokenizer.unknown_in(text) if source == "given" else ""
    if unknown:
        raise ConfigError(
            f"the response {text[-40:]!r} has characters that the tokenizer does not know "
            f"({unknown[:20]!r}), so another text would be scored; write it without them"
        )
    tokens = tokenizer.encode(text, prompt=False)
    if not tokens:
        raise ConfigError(
            f"the response to {prompt.text[-40:]!r} is empty, so there is no log-probability "
            "to explain; write at least one token"
        )
    if closed:
        tokens = [*tokens, tokenizer.end_id]
    response = DecodedSequence(tokens=tokens, finished=closed)
    return UnscoredSequence(prompt, at, 0, _prompt_tokens(tokenizer, prompt), response, source)


def _prompt_tokens(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    unknown = tokenizer.unknown_in(prompt.text) if prompt.split == "custom" else ""
    if unknown:
        _log.warning(
            "the prompt %r has characters that the tokenizer does not know (%r): the model sees "
            "its token for the unknown in their place",
            prompt.text[-40:],
            unknown[:20],
        )
    tokens = tokenizer.encode(prompt.text, prompt=True)
    if not tokens:
        raise ConfigError(
            f"prompt {prompt.global_prompt_id} is empty, and the tokenizer adds no token in "
            "front of it; give it at least one character"
        )
    return tokens


def _reference(prompt: Prompt) -> str:
    if prompt.reference is None:
        raise ConfigError(
            f"prompt {prompt.global_prompt_id} has no reference response; use generated ones, or "
            "give the texts"
        )
    return prompt.reference
