"""The prompt set of a runner, and the batches that a plan requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.errors import ConfigError
from midstep.influence.sampling.batch_files import load_batch
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.sampling.prompt_sets import PromptSet, prompt_set
from midstep.influence.sampling.rewards import AdvantageConfig, RewardConfig
from midstep.influence.sampling.sample_generator import SampleGenerator
from midstep.influence.study.plan import BatchRequest, build_config


def load_prompts(setting: str | Mapping[str, Any] | None) -> PromptSet | None:
    """The prompt set of a setting: a name, or a mapping with the name and its settings."""
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
    for name, kind in configs.items():
        if name in params:
            params[name] = build_config(kind, params[name], name)
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
