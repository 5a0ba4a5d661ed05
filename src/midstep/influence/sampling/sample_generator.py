"""Sample batches from a checkpoint: for an update, for evaluation, or for a user's prompts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require
from midstep.core.random_streams import RandomStream
from midstep.influence.fingerprints import BatchFingerprint, hash_weights
from midstep.influence.sampling.decoding import DecodingConfig
from midstep.influence.sampling.generated_batch import GeneratedBatch, SequenceRecord
from midstep.influence.sampling.language_models import LanguageModel, language_model
from midstep.influence.sampling.lm_checkpoints import load_checkpoint
from midstep.influence.sampling.prompt_sets import Prompt, PromptSet, prompt_at, resolve_prompt
from midstep.influence.sampling.responses import (
    Responses,
    UnscoredSequence,
    custom_prompt,
    sample_responses,
    written_response,
    written_responses,
)
from midstep.influence.sampling.rewards import (
    AdvantageConfig,
    RewardConfig,
    advantages_of,
    normalisers_of,
    weighted_reward,
)
from midstep.influence.sampling.sequence_processor import SequenceProcessor, TokenScores
from midstep.influence.sampling.tokenizers import Tokenizer


class SampleGenerator:
    """Samples batches from a model and its tokenizer.

    Args:
        model: a midstep CausalLM or a causal language model of transformers.
        tokenizer: converts text to tokens.
        prompts: prompt set to draw from; None allows only custom prompts.
        decoding: how responses are drawn.

    >>> from midstep.influence.sampling.arithmetic import Arithmetic
    >>> from midstep.influence.sampling.tokenizers import CharacterTokenizer
    >>> from midstep.models.causal_lm import CausalLM, CausalLMConfig
    >>> tokenizer = CharacterTokenizer()
    >>> model = CausalLM(CausalLMConfig(vocab_size=tokenizer.vocab_size, width=8, heads=2))
    >>> generator = SampleGenerator(
    ...     model, tokenizer, Arithmetic(), decoding=DecodingConfig(max_new_tokens=4))
    >>> generator.generate_update_batch(2, 2, seed=1).sequence_ids
    ('U-000-00', 'U-000-01', 'U-001-00', 'U-001-01')
    """

    def __init__(
        self,
        model: nn.Module | LanguageModel,
        tokenizer: Tokenizer,
        prompts: PromptSet | None = None,
        *,
        decoding: DecodingConfig | None = None,
    ) -> None:
        self.model, self.tokenizer = language_model(model), tokenizer
        self.decoding = decoding or DecodingConfig()
        self._prompts = prompts
        self.processor = SequenceProcessor(self.model, pad_id=tokenizer.pad_id)

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        prompts: PromptSet | None = None,
        *,
        device: str = "cpu",
        dtype: str | None = None,
        decoding: DecodingConfig | None = None,
    ) -> SampleGenerator:
        """A generator for the checkpoint in a local folder."""
        model, tokenizer = load_checkpoint(path, device=device, dtype=dtype)
        return cls(model, tokenizer, prompts, decoding=decoding)

    @property
    def prompts(self) -> PromptSet:
        """The prompt set."""
        if self._prompts is None:
            raise ConfigError("this generator has no prompt set; give one, or use custom prompts")
        return self._prompts

    def fingerprint(self) -> BatchFingerprint:
        """The fingerprint of the present weights and the tokenizer."""
        return BatchFingerprint(
            weights=hash_weights(self.model.module), tokenizer=self.tokenizer.fingerprint
        )

    # -- batches ----------------------------------------------------------------------------------

    def generate_update_batch(
        self,
        batch_size_prompts: int,
        completions_per_prompt: int,
        dataset_split: str = "train",
        seed: int = 0,
        reward_cfg: RewardConfig | None = None,
        advantage_cfg: AdvantageConfig | None = None,
    ) -> GeneratedBatch:
        """An update batch: several responses per prompt, with rewards, advantages and weights.

        No prompt is drawn twice. A batch in which every advantage is zero is returned as it is; its
        diagnostics say so under `all_advantages_zero`.
        """
        prompts = self._draw_prompts(
            dataset_split, batch_size_prompts, seed, with_replacement=False
        )
        batch = self._generate("U", prompts, completions_per_prompt, seed, "generated", reward_cfg)
        return self._with_advantages(batch, advantage_cfg or AdvantageConfig())

    def generate_evaluation_batch(
        self,
        batch_size_prompts: int,
        completions_per_prompt: int = 1,
        with_replacement: bool = True,
        dataset_split: str = "test",
        seed: int = 0,
        responses: Responses = "generated",
    ) -> GeneratedBatch:
        """An evaluation batch: one response per prompt by default, no advantages."""
        prompts = self._draw_prompts(
            dataset_split, batch_size_prompts, seed, with_replacement=with_replacement
        )
        return self._generate("E", prompts, completions_per_prompt, seed, responses)

    def generate_from_prompt_ids(
        self,
        prompt_ids: Sequence[str | int],
        dataset_split: str = "test",
        completions_per_prompt: int = 1,
        seed: int = 0,
        responses: Responses = "generated",
    ) -> GeneratedBatch:
        """Responses to these prompts, given by id or by index in the split."""
        prompts = [resolve_prompt(self.prompts, dataset_split, one) for one in prompt_ids]
        return self._generate("E", prompts, completions_per_prompt, seed, responses)

    def generate_from_custom_prompts(
        self,
        prompts: Sequence[str],
        completions_per_prompt: int = 1,
        seed: int = 0,
        responses: Responses = "generated",
    ) -> GeneratedBatch:
        """Responses to a user's questions, in the template of the prompt set if there is one."""
        apply = self._prompts.apply_template if self._prompts is not None else str
        custom = [custom_prompt(apply(question), {"question": question}) for question in prompts]
        return self._generate("C", custom, completions_per_prompt, seed, responses)

    def build_custom_sequence(
        self,
        prompt: str,
        response: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        closed: bool = False,
    ) -> GeneratedBatch:
        """A batch of one sequence, with prompt and response exactly as given.

        Args:
            prompt: what the model reads; no template is applied.
            response: the text whose log-probability counts.
            metadata: kept with the record.
            closed: append the end token to the response.
        """
        custom = custom_prompt(prompt, metadata or {})
        sequence = written_response(self.tokenizer, custom, response, closed=closed)
        return self._score_batch("C", [sequence], None, {"kind": "custom_sequence"})

    def rescore(self, batch: GeneratedBatch) -> GeneratedBatch:
        """The same tokens scored with the present weights; rewards and weights stay."""
        scores = self.processor.score([(one.prompt_tokens, one.response_tokens) for one in batch])
        records = [
            replace(record, logprobs=score.logprobs, entropies=score.entropies)
            for record, score in zip(batch.records, scores, strict=True)
        ]
        return replace(
            batch,
            records=tuple(records),
            fingerprint=self.fingerprint(),
            diagnostics={**batch.diagnostics, "rescored": True},
        )

    # -- internal ---------------------------------------------------------------------------------

    def _draw_prompts(
        self, split: str, count: int, seed: int, *, with_replacement: bool
    ) -> list[Prompt]:
        require(at_least("batch_size_prompts", count, 1))
        prompt_at(self.prompts, split, 0)  # an unknown split is an error that lists the splits
        available = self.prompts.splits()[split]
        if count > available and not with_replacement:
            raise ConfigError(
                f"{self.prompts.name} has {available} prompts in {split!r}, {count} were requested "
                "without repetition; request fewer"
            )
        stream = RandomStream(seed, f"prompts/{self.prompts.name}/{split}")
        # Sorting by addressed bits is a shuffle in which every prompt has a fixed key: a larger
        # batch of the same seed begins with the same prompts.
        indices = (
            [stream.integer(available, at=at) for at in range(count)]
            if with_replacement
            else sorted(range(available), key=stream.bits)[:count]
        )
        return [prompt_at(self.prompts, split, index) for index in indices]

    def _generate(
        self,
        prefix: str,
        prompts: Sequence[Prompt],
        completions: int,
        seed: int,
        responses: Responses,
        rewards: RewardConfig | None = None,
    ) -> GeneratedBatch:
        require(at_least("completions_per_prompt", completions, 1))
        if not prompts:
            raise ConfigError("no prompts were given; give at least one")
        if responses == "generated":
            sequences = sample_responses(
                self.model, self.tokenizer, prompts, completions, seed, self.decoding
            )
        else:
            sequences = written_responses(self.tokenizer, prompts, responses)
        settings = {
            "kind": prefix,
            "seed": seed,
            "completions_per_prompt": completions,
            "responses": responses if isinstance(responses, str) else "given",
            "temperature": self.decoding.temperature,
            "max_new_tokens": self.decoding.max_new_tokens,
        }
        return self._score_batch(prefix, sequences, rewards or RewardConfig(), settings)

    def _score_batch(
        self,
        prefix: str,
        sequences: Sequence[UnscoredSequence],
        rewards: RewardConfig | None,
        settings: Mapping[str, Any],
    ) -> GeneratedBatch:
        scores = self.processor.score(
            [(one.prompt_tokens, one.response.tokens) for one in sequences]
        )
        records = tuple(
            self._record(prefix, sequence, score, rewards)
            for sequence, score in zip(sequences, scores, strict=True)
        )
        return GeneratedBatch(
            records=records,
            pad_id=self.tokenizer.pad_id,
            fingerprint=self.fingerprint(),
            diagnostics={
                **settings,
                "sequences": len(sequences),
                "response_tokens": sum(len(one.response.tokens) for one in sequences),
                "finished": sum(one.response.finished for one in sequences),
                "close_calls": sum(one.response.close_calls for one in sequences),
            },
        )

    def _record(
        self,
        prefix: str,
        sequence: UnscoredSequence,
        score: TokenScores,
        rewards: RewardConfig | None,
    ) -> SequenceRecord:
        text = self.tokenizer.decode(sequence.response.tokens)
        reward, parts = None, {}
        # A prompt without an answer is not judged.
        if rewards is not None and sequence.prompt.answer is not None:
            judgement = self.prompts.judge(sequence.prompt, text)
            reward, parts = weighted_reward(judgement, rewards), asdict(judgement)
        return sequence.record(
            prefix,
            response_text=text,
            logprobs=score.logprobs,
            entropies=score.entropies,
            reward=reward,
            reward_parts=parts,
        )

    def _with_advantages(self, batch: GeneratedBatch, scheme: AdvantageConfig) -> GeneratedBatch:
        groups = [record.provenance.global_prompt_id for record in batch]
        advantages = advantages_of(batch.rewards, groups, scheme)
        lengths = [len(record.response_tokens) for record in batch]
        normalisers = normalisers_of(lengths, scheme, max_new_tokens=self.decoding.max_new_tokens)
        records = [
            replace(
                record, advantage=advantage, normaliser=normaliser, weight=advantage * normaliser
            )
            for record, advantage, normaliser in zip(
                batch.records, advantages.tolist(), normalisers.tolist(), strict=True
            )
        ]
        # A batch without any signal is worth knowing before a kernel is computed.
        summary = {
            "scheme": scheme.scheme,
            "mean_reward": batch.rewards.mean().item(),
            "all_advantages_zero": not torch.any(advantages).item(),
        }
        return replace(batch, records=tuple(records), diagnostics={**batch.diagnostics, **summary})
