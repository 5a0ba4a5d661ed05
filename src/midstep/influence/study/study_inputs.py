"""The model, optimizer and prompts of a runner, each loaded when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.influence.fingerprints import BatchFingerprint, KernelFingerprint, kernel_fingerprint
from midstep.influence.kernels.kernel_inputs import trained_parameters
from midstep.influence.optimizers.optimizer_files import load_optimizer
from midstep.influence.sampling.batch_files import load_batch
from midstep.influence.sampling.decoding import DecodingConfig
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.sampling.prompt_sets import PromptSet, prompt_set
from midstep.influence.sampling.rewards import AdvantageConfig, RewardConfig
from midstep.influence.sampling.sample_generator import SampleGenerator
from midstep.influence.study.gradient_views import GradientViews
from midstep.influence.study.plan import (
    BatchRequest,
    FisherKernelConfig,
    FisherKernelPlan,
    build_config,
)

if TYPE_CHECKING:
    from torch.optim import AdamW


class StudyInputs:
    """Model, tokenizer, prompt set and optimizer of a configuration.

    Args:
        config: says where they are.
    """

    def __init__(self, config: FisherKernelConfig) -> None:
        self.config = config

    @cached_property
    def generator(self) -> SampleGenerator:
        """The checkpoint's model and tokenizer with the prompt set."""
        config = self.config
        return SampleGenerator.from_checkpoint(
            config.checkpoint,
            _load_prompts(config.prompt_set),
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
        """The AdamW of the step, with its state bound by name."""
        source = self.config.optimizer_state or self.config.checkpoint
        return load_optimizer(
            source, self.generator.model.module, order=self.config.optimizer_order
        )

    @cached_property
    def batch_fingerprint(self) -> BatchFingerprint:
        """Hashes of the weights and the tokenizer, computed once: hashing reads all weights."""
        return self.generator.fingerprint()

    def fingerprint(self, plan: FisherKernelPlan) -> KernelFingerprint:
        """The fingerprint of a workspace of this plan."""
        model = self.generator.model.module
        return kernel_fingerprint(
            model,
            self.optimizer_for(plan),
            weights=self.batch_fingerprint.weights,
            tokenizer=self.batch_fingerprint.tokenizer,
            dtype=plan.dtype,
            names=trained_parameters(model, plan.parameters).values(),
            preconditioner=plan.preconditioner,
        )

    def optimizer_for(self, plan: FisherKernelPlan) -> AdamW | None:
        """The optimizer; None for sgd, which needs no state."""
        return None if plan.preconditioner == "sgd" else self.optimizer

    def views(self, plan: FisherKernelPlan, batch: GeneratedBatch) -> GradientViews:
        """Views that compute gradients for an update and a plan."""
        model = self.generator.model.module
        return GradientViews(model, self.optimizer_for(plan), batch, plan)


def _load_prompts(setting: str | Mapping[str, Any] | None) -> PromptSet | None:
    if setting is None:
        return None
    if isinstance(setting, str):
        return prompt_set(setting)
    settings = dict(setting)
    return prompt_set(str(settings.pop("name", "")), **settings)


def make_batch(generator: SampleGenerator, request: BatchRequest) -> GeneratedBatch:
    """Sample or load the batch of a request."""
    batch = _make_by_kind(generator, request)
    if request.sequence_ids is None:
        return batch
    return batch.clone_with_subset(request.sequence_ids)


def _make_by_kind(generator: SampleGenerator, request: BatchRequest) -> GeneratedBatch:
    params = dict(request.params)
    if request.kind == "from_file":
        return _load_from_file(generator, params)
    configs: dict[str, type[Any]] = {"reward_cfg": RewardConfig, "advantage_cfg": AdvantageConfig}
    for name in configs.keys() & params.keys():
        params[name] = build_config(configs[name], params[name], name)
    if request.kind not in ("update", "custom_sequence"):
        params["responses"] = request.responses
    makers: dict[str, Any] = {
        "update": generator.generate_update_batch,
        "evaluation": generator.generate_evaluation_batch,
        "prompt_ids": generator.generate_from_prompt_ids,
        "custom_prompts": generator.generate_from_custom_prompts,
        "custom_sequence": generator.build_custom_sequence,
    }
    try:
        batch: GeneratedBatch = makers[request.kind](**params)
    except TypeError as error:  # such as a number in place of a list
        raise ConfigError(f"params of the request have the wrong type: {error}") from error
    return batch


def _load_from_file(generator: SampleGenerator, params: Mapping[str, Any]) -> GeneratedBatch:
    """Load a batch. One of another checkpoint is scored again with `rescore`, else refused."""
    here = generator.fingerprint()
    if not params.get("rescore", False):
        return load_batch(params["path"], expected=here)
    batch = load_batch(params["path"])
    if batch.fingerprint is not None and batch.fingerprint.tokenizer != here.tokenizer:
        raise ConfigError(
            f"the batch {params['path']} was made with another tokenizer, so its tokens mean "
            "something else here; sample a new batch"
        )
    return generator.rescore(batch)
