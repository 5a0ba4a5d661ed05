"""Plans: which update, which requests about it, and what is stored."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, MissingExtraError, StorageError
from midstep.core.field_checks import at_least, one_of, require
from midstep.influence.kernels.kernel_inputs import check_positive
from midstep.influence.kernels.planner import Algorithm
from midstep.influence.optimizers.optimizer_files import ParameterOrder
from midstep.influence.optimizers.preconditioners import PreconditionerName

ComputeType = Literal["float64", "float32", "bfloat16"]
RequestKind = Literal[
    "update", "evaluation", "prompt_ids", "custom_prompts", "custom_sequence", "from_file"
]
_REQUIRED = {
    "update": {"batch_size_prompts", "completions_per_prompt"},
    "evaluation": {"batch_size_prompts"},
    "prompt_ids": {"prompt_ids"},
    "custom_prompts": {"prompts"},
    "custom_sequence": {"prompt", "response"},
    "from_file": {"path"},
}
"""Names in `params` that a request of each kind must have."""
_OPTIONAL = {
    "update": {"dataset_split", "seed", "reward_cfg", "advantage_cfg"},
    "evaluation": {"completions_per_prompt", "with_replacement", "dataset_split", "seed"},
    "prompt_ids": {"dataset_split", "completions_per_prompt", "seed"},
    "custom_prompts": {"completions_per_prompt", "seed"},
    "custom_sequence": {"metadata", "closed"},
    "from_file": {"rescore"},
}
"""Names that it may have besides."""
_Config = TypeVar("_Config")


@dataclass(frozen=True, kw_only=True)
class BatchRequest:
    """A request for a batch, to be sampled or loaded.

    >>> BatchRequest(kind="custom_sequence", params={"prompt": "1+1=", "response": "2"}).name
    'custom_sequence'
    """

    kind: RequestKind
    """Which method of `SampleGenerator` makes the batch, or from_file."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of that method. For from_file: path, and rescore for a batch of another
    checkpoint."""
    responses: str | Sequence[str] = "generated"
    """generated, reference, or one text per prompt."""
    sequence_ids: tuple[str, ...] | None = None
    """Only these sequences of the batch, in this order. None: all."""
    name: str = ""
    """Name in the results; by default its kind."""

    def __post_init__(self) -> None:
        require(one_of("kind", self.kind, get_args(RequestKind)))
        object.__setattr__(self, "name", self.name or self.kind)
        if self.sequence_ids is not None:
            object.__setattr__(self, "sequence_ids", tuple(self.sequence_ids))
        needed, allowed, given = _REQUIRED[self.kind], _OPTIONAL[self.kind], set(self.params)
        if needed - given or given - needed - allowed:
            raise ConfigError(
                f"a request of kind {self.kind!r} needs {_list_names(needed)} and may have "
                f"{_list_names(allowed)}; got {_list_names(given)}"
            )
        takes_responses = self.kind in ("evaluation", "prompt_ids", "custom_prompts")
        if self.responses != "generated" and not takes_responses:
            raise ConfigError(f"a request of kind {self.kind!r} takes no responses")


def _list_names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


@dataclass(frozen=True, kw_only=True)
class FisherKernelPlan:
    """One update, the batches whose log-probabilities it changes, and what is stored."""

    update: BatchRequest
    """How U is sampled or loaded. Its sequences need weights."""
    requests: tuple[BatchRequest, ...] = ()
    """Batches to evaluate, in order."""
    name: str = "study"
    """Part of the folder's name."""
    preconditioner: PreconditionerName = "adam_post"
    """D between two gradients."""
    algorithm: Algorithm = "auto"
    """Algorithm of the computation; auto lets the planner choose."""
    dtype: ComputeType | None = None
    """Type of the computation, on a copy of the model. None: the type of the model."""
    microbatch: int | None = None
    """The most sequences of one pass."""
    parameters: tuple[str, ...] | None = None
    """Names or patterns of the parameters that count. None: all that train."""
    lr: float | None = None
    """Learning rate of the step. None: the optimizer's."""
    max_grad_norm: float | None = None
    """The trainer clips the gradient to this norm."""
    full_kernel: bool = True
    """Store K(E,U) of each request, which `what_if` needs; otherwise only the top contributors."""
    self_kernel: bool = True
    """Compute K(U,U)."""
    top_k: int = 10
    """Contributors stored for each sequence."""
    validate_rates: tuple[float, ...] = ()
    """Learning rates at which true steps check the prediction."""

    def __post_init__(self) -> None:
        for name in ("requests", "validate_rates", "parameters"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        require(
            one_of("preconditioner", self.preconditioner, get_args(PreconditionerName)),
            one_of("algorithm", self.algorithm, get_args(Algorithm)),
            None if self.dtype is None else one_of("dtype", self.dtype, get_args(ComputeType)),
            at_least("top_k", self.top_k, 0),
        )
        check_positive(lr=self.lr, max_grad_norm=self.max_grad_norm)
        if any(not 0 < rate < math.inf for rate in self.validate_rates):
            raise ConfigError(f"validate_rates must be above 0, got {self.validate_rates}")
        names = [request.name for request in self.requests]
        if len(set(names)) != len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"two requests are called {duplicate!r}; give each a name of its own")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> FisherKernelPlan:
        """The plan with these settings. Unknown names raise an error."""
        fields_given = dict(settings)
        if "update" not in fields_given:
            raise ConfigError("a plan needs 'update': how the update batch is made or loaded")
        fields_given["update"] = build_config(BatchRequest, fields_given["update"], "update")
        fields_given["requests"] = tuple(
            build_config(BatchRequest, one, f"requests[{at}]")
            for at, one in enumerate(fields_given.get("requests") or ())
        )
        return build_config(cls, fields_given, "plan")

    def to_json(self) -> dict[str, Any]:
        """As plain data, for plan.json."""
        return _plain_fields(self)


@dataclass(frozen=True, kw_only=True)
class FisherKernelConfig:
    """Settings of a runner."""

    checkpoint: str
    """Folder of the model: a checkpoint of midstep or of transformers."""
    optimizer_state: str | None = None
    """Folder or file of the AdamW state. None: the state in the checkpoint's folder."""
    optimizer_order: ParameterOrder = "names"
    """Order of the parameters in a state file without names; see `load_optimizer`."""
    prompt_set: str | Mapping[str, Any] | None = "arithmetic"
    """Name of a prompt set, or its name with settings: {name: gsm8k, path: …}."""
    device: str = "cpu"
    """Device of the model."""
    dtype: ComputeType | None = None
    """Type of the model. None: as saved."""
    max_new_tokens: int = 64
    """Tokens of a response at most."""
    temperature: float = 1.0
    """Temperature of sampling."""
    microbatch: int = 32
    """Sequences sampled together; changes no token."""
    outputs: str = "outputs/influence"
    """Parent folder of the runs' folders."""

    def __post_init__(self) -> None:
        require(
            None if self.dtype is None else one_of("dtype", self.dtype, get_args(ComputeType)),
            one_of("optimizer_order", self.optimizer_order, get_args(ParameterOrder)),
        )

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> FisherKernelConfig:
        """The config with these settings. Unknown names raise an error."""
        return build_config(cls, settings, "runner")

    def to_json(self) -> dict[str, Any]:
        """As plain data, for plan.json."""
        return _plain_fields(self)


def _plain_fields(config: FisherKernelPlan | FisherKernelConfig) -> dict[str, Any]:
    # Through JSON, so that tuples are lists: a plan is compared with the one read from plan.json.
    plain: dict[str, Any] = strict_json.loads(strict_json.dumps(asdict(config)))
    return plain


def build_config(kind: type[_Config], settings: Any, location: str) -> _Config:
    """A config of class `kind` from a mapping; errors name the `location` in the plan."""
    if isinstance(settings, kind):
        return settings
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"{location} must be a mapping of settings, got {type(settings).__name__}"
        )
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    unknown = sorted(set(map(str, settings)) - known)
    if unknown:
        raise ConfigError(
            f"{location} has no setting {unknown[0]!r}; the settings are {', '.join(sorted(known))}"
        )
    try:
        return kind(**settings)
    except TypeError as error:
        raise ConfigError(f"{location}: {error}") from None


def read_plan(path: str | os.PathLike[str]) -> tuple[FisherKernelConfig, FisherKernelPlan]:
    """A plan file: JSON or YAML with the keys `runner` and `plan`."""
    file = Path(path)
    document = _parse_file(file)
    if not isinstance(document, Mapping) or set(document) != {"runner", "plan"}:
        raise FormatError(
            f"{file} must have the two keys 'runner' (checkpoint, prompt_set, …) and 'plan' "
            "(update, requests, …)"
        )
    plan = document["plan"]
    if not isinstance(plan, Mapping):
        raise ConfigError(f"plan must be a mapping of settings, got {type(plan).__name__}")
    runner = FisherKernelConfig.from_mapping(document["runner"])
    return runner, FisherKernelPlan.from_mapping(plan)


def _parse_file(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot read the plan {file}: {error.strerror}") from error
    if file.suffix not in (".yaml", ".yml"):
        return strict_json.loads(text)
    try:
        import yaml
    except ImportError:
        raise MissingExtraError.for_library("pyyaml", "influence") from None
    try:
        return yaml.safe_load(text)  # builds no Python objects from tags
    except yaml.YAMLError as error:
        raise FormatError(f"{file} is not plain YAML: {' '.join(str(error).split())}") from None
