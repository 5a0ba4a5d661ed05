"""What a runner works with, each part loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from midstep.influence.fingerprint import KernelFingerprint, fingerprint_of
from midstep.influence.inputs import trained_parameters
from midstep.influence.optimizer_files import load_optimizer
from midstep.influence.plan import FisherKernelConfig, FisherKernelPlan
from midstep.influence.sampling.batch import BatchFingerprint, GeneratedBatch
from midstep.influence.sampling.decoding import DecodingConfig
from midstep.influence.sampling.generator import SampleGenerator
from midstep.influence.sampling.prompts import PromptSet, prompt_set
from midstep.influence.views import GradientViews

if TYPE_CHECKING:
    from torch.optim import AdamW

__all__ = ["LoadedCheckpoint"]


class LoadedCheckpoint:
    """Model, tokenizer, prompt set and optimizer of a configuration.

    Args:
        config: where they are.
    """

    def __init__(self, config: FisherKernelConfig) -> None:
        self.config = config

    @cached_property
    def generator(self) -> SampleGenerator:
        """The checkpoint's model and tokenizer, and the prompt set."""
        config = self.config
        return SampleGenerator.from_checkpoint(
            config.checkpoint,
            _prompts(config.prompt_set),
            device=config.device,
            dtype=config.dtype,
            decoding=DecodingConfig(
                max_new_tokens=config.max_new_tokens,
                temperature=config.temperature,
                microbatch=config.microbatch,
            ),
        )

    @cached_property
    def optimizer(self) -> AdamW:
        """The AdamW that takes the step, its state bound by name."""
        place = self.config.optimizer_state or self.config.checkpoint
        return load_optimizer(place, self.generator.model.module, order=self.config.optimizer_order)

    @cached_property
    def batch_fingerprint(self) -> BatchFingerprint:
        """Hashes of the weights and the tokenizer, taken once."""
        return self.generator.fingerprint()

    def fingerprint(self, plan: FisherKernelPlan) -> KernelFingerprint:
        """What a workspace of this plan belongs to."""
        model = self.generator.model.module
        return fingerprint_of(
            model,
            self.optimizer_for(plan),
            weights=self.batch_fingerprint.weights,
            tokenizer=self.batch_fingerprint.tokenizer,
            dtype=plan.dtype,
            names=trained_parameters(model, plan.parameters).values(),
            preconditioner=plan.preconditioner,
        )

    def optimizer_for(self, plan: FisherKernelPlan) -> AdamW | None:
        """The optimizer, or None where the plan needs none."""
        return None if plan.preconditioner == "sgd" else self.optimizer

    def views(self, plan: FisherKernelPlan, batch: GeneratedBatch) -> GradientViews:
        """Gradients on demand for an update under a plan."""
        model = self.generator.model.module
        return GradientViews(model, self.optimizer_for(plan), batch, batch.weights, plan)


def _prompts(told: str | Mapping[str, Any] | None) -> PromptSet | None:
    if told is None:
        return None
    if isinstance(told, str):
        return prompt_set(told)
    settings = dict(told)
    return prompt_set(str(settings.pop("name", "")), **settings)
