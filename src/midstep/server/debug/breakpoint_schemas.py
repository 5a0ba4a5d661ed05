"""Requests and responses of breakpoints, rules and watches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from midstep.control.breakpoints.breakpoints import Action
from midstep.server.schema_base import In, Number, Out

RuleName = Literal[
    "vanishing_gradients",
    "exploding_gradients",
    "dead_relus",
    "saturated_activations",
    "loss_not_falling",
    "unchanged_weights",
    "all_zero_tensors",
    "nonfinite_layer",
    "update_ratio",
    "overfitting",
]
# Strict types: pydantic would otherwise accept `true` and "1" as numbers.
Limit = Annotated[StrictFloat | StrictInt, Field(allow_inf_nan=False)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=128)]


class StepCondition(In):
    """Pause when this many steps are finished."""

    kind: Literal["step"]
    step: Annotated[StrictInt, Field(ge=0, le=10**15)]


class EveryCondition(In):
    """Pause every n steps."""

    kind: Literal["every"]
    n: Annotated[StrictInt, Field(ge=1, le=10**15)]


class NonFiniteCondition(In):
    """Pause when the loss is NaN or infinite."""

    kind: Literal["loss_nonfinite"]


class LossZCondition(In):
    """Pause when the loss is this many standard deviations above its recent mean."""

    kind: Literal["loss_z"]
    limit: Annotated[Limit, Field(gt=0)] = 4.0
    window: Annotated[StrictInt, Field(ge=8, le=100_000)] = 200


class GradNormCondition(In):
    """Pause when the gradient norm is above a limit."""

    kind: Literal["grad_norm"]
    limit: Annotated[Limit, Field(gt=0)]


class MetricCondition(In):
    """Pause when the comparison of a logged scalar with a value is true."""

    kind: Literal["metric"]
    name: Name
    op: Literal["<", "<=", ">", ">=", "==", "!="]
    value: Limit


class SampleCondition(In):
    """Pause when one of these samples was in the batch."""

    kind: Literal["sample"]
    ids: Annotated[list[StrictInt], Field(min_length=1, max_length=10_000)]


class ExpressionCondition(In):
    """Pause when an expression over the scalars of the step is true."""

    kind: Literal["expression"]
    expression: Annotated[StrictStr, Field(min_length=1, max_length=500)]


class RuleCondition(In):
    """Pause when a rule finds a problem; settings that are left out have the rule's defaults."""

    kind: Literal["rule"]
    rule: RuleName
    limit: Annotated[Limit, Field(ge=0)] | None = None
    low: Annotated[Limit, Field(ge=0)] | None = None
    """The lower limit of `update_ratio`."""
    window: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    """Measurements in a row, or steps to compare."""
    every: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    """Measure every this many steps."""
    layers: Name | None = None
    """Only layers whose name contains this."""
    metric: Name | None = None
    """The scalar that `overfitting` compares with the training loss."""


ConditionIn = Annotated[
    StepCondition
    | EveryCondition
    | NonFiniteCondition
    | LossZCondition
    | GradNormCondition
    | MetricCondition
    | SampleCondition
    | ExpressionCondition
    | RuleCondition,
    Field(discriminator="kind"),
]


class BreakpointIn(In):
    """A new breakpoint."""

    condition: ConditionIn
    enabled: StrictBool = True
    action: Action = "pause"


class BreakpointPatch(In):
    """Switch a breakpoint on or off, or set whether a hit pauses the run or only marks it."""

    enabled: StrictBool | None = None
    action: Action | None = None


class BreakpointOut(Out):
    """A breakpoint with its hits so far."""

    id: int
    condition: ConditionIn
    words: str
    """The condition in words."""
    enabled: bool
    action: Action
    hits: int
    hit_steps: list[int]
    """Steps of the last hits, at most 100."""
    window: int | None
    mean: float | None
    """Present mean of the window, where it has one."""
    std: float | None
    costs_sync: bool
    """Whether it makes the device synchronise at each step."""
    cost_s: float | None
    """Mean seconds a step that a rule takes to measure; null if it measures nothing."""
    missing: list[str]
    """What it needs and no step has had so far: a scalar, perhaps misspelt, or a model."""


class ExplanationOut(Out):
    """A rule's finding in words."""

    title: str
    means: str
    causes: list[str]
    """Usual causes, most frequent first."""
    advice: list[str]
    """What to try."""


class Evidence(Out):
    """Why a breakpoint was hit."""

    breakpoint: int
    condition: str
    """The condition in words: `loss z-score > 4`."""
    value: Number | None
    limit: Number | None
    step: int
    samples: list[int]
    """Ids of the samples that contribute most, at most 128."""
    note: str | None = None
    """A note, for example: `6 of 128 samples carry 38 % of the loss`."""
    layer: str | None = None
    """Name of the parameter or module, if a rule names one."""
    action: Action = "pause"
    rule: str | None = None
    """Name of the rule, if it was one."""
    explanation: ExplanationOut | None = None
    """For rules: meaning, usual causes, what to try."""
    positions: tuple[int, ...] = ()
    """Where the samples are in the step, once the cause was looked for."""
    title: str | None = None
    """What was noticed, once the cause was looked for: `Loss is NaN.`"""
    cause: str | None = None
    """Where that came from, if it was found; GET …/diagnosis has more."""


class WatchIn(In):
    """The new watched rows of one source. Without rows and source, all watches end."""

    feature_ids: Annotated[list[StrictInt], Field(max_length=64)]
    source: Name | None = None
    """The default source of the run when left out."""


class WatchOut(Out):
    """The watched rows."""

    source: str | None
    """The source that was chosen last."""
    feature_ids: list[int]
    """Its watched rows."""
    others: dict[str, list[int]]
    """Watched rows of other sources."""
    sources: list[str]
    """Names of the tensors whose rows can be watched."""


class SourceTrajectories(Out):
    """Points of the rows of one source, also of rows that are no longer watched."""

    watched: list[int]
    trajectories: dict[str, list[dict[str, Number | None]]]
    """Points by feature id."""
    pairwise: dict[str, list[dict[str, Number]]]
    """Points `{step, cos}` by pair `a,b` with a < b."""


class TrajectoriesOut(SourceTrajectories):
    """Points of the source that was chosen last, and of the others by name."""

    source: str | None
    others: dict[str, SourceTrajectories]
    exact: bool
    """Whether all points are here; if not, request more with `points`."""


class RuleDefaults(Out):
    """Default settings of a rule; null if the rule has no such setting."""

    limit: float | None
    low: float | None
    window: int | None
    every: int | None
    layers: str | None
    metric: str | None


class RuleOut(Out):
    """One rule: its condition, and what a finding means."""

    rule: RuleName
    title: str
    words: str
    """Its condition with the default settings."""
    defaults: RuleDefaults
    needs_model: bool
    """Whether it measures the model, which a loop without `attach` has to register."""
    explanation: ExplanationOut
