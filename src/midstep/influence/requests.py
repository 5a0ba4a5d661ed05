"""A `BatchRequest` turned into a batch by the sample generator, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from midstep.core.errors import ConfigError
from midstep.influence.plan import BatchRequest
from midstep.influence.sampling.advantages import AdvantageConfig
from midstep.influence.sampling.batch import GeneratedBatch
from midstep.influence.sampling.batch_files import load_batch
from midstep.influence.sampling.generator import SampleGenerator
from midstep.influence.sampling.rewards import RewardConfig

__all__ = ["make_batch"]

_Config = TypeVar("_Config")


def make_batch(generator: SampleGenerator, request: BatchRequest) -> GeneratedBatch:
    """The batch that a request asks for."""
    batch = _make(generator, request)
    if request.sequence_ids is None:
        return batch
    return batch.clone_with_subset(request.sequence_ids)


def _make(generator: SampleGenerator, request: BatchRequest) -> GeneratedBatch:
    params = dict(request.params)
    if request.kind == "from_file":
        return _from_file(generator, params)
    if request.kind == "update":
        for name, kind in (("reward_cfg", RewardConfig), ("advantage_cfg", AdvantageConfig)):
            if name in params:
                params[name] = _config(kind, params[name], name)
        return _called(generator.generate_update_batch, params)
    if request.kind == "custom_sequence":
        return _called(generator.build_custom_sequence, params)
    makers = {
        "evaluation": generator.generate_evaluation_batch,
        "prompt_ids": generator.generate_from_prompt_ids,
        "custom_prompts": generator.generate_from_custom_prompts,
    }
    return _called(makers[request.kind], {**params, "responses": request.responses})


def _called(maker: Any, params: Mapping[str, Any]) -> GeneratedBatch:
    try:
        batch: GeneratedBatch = maker(**params)
    except TypeError as error:  # a number where a list is wanted, and the like
        raise ConfigError(f"the request's params do not fit: {error}") from error
    return batch


def _config(kind: type[_Config], told: Any, name: str) -> _Config:
    if isinstance(told, kind):
        return told
    try:
        return kind(**told)
    except TypeError as error:
        raise ConfigError(f"{name}: {error}") from None


def _from_file(generator: SampleGenerator, params: Mapping[str, Any]) -> GeneratedBatch:
    """A file of another checkpoint is refused, or scored again where that was asked for."""
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
