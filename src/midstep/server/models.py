"""What may enter and leave over HTTP. The OpenAPI document and the page's types come from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from midstep.control.panels import PanelKind

RunState = Literal[
    "starting",
    "running",
    "pausing",
    "paused",
    "stepping",
    "rewinding",
    "busy",
    "stopped",
    "finished",
    "failed",
    "killed",
    "lost",
    "not responding",
]
CommandStatus = Literal["pending", "running", "done", "failed", "refused"]
Who = Literal["page", "cli", "terminal", "python", "breakpoint", "system"]
BreakpointAction = Literal["pause", "mark"]
"""Stop the run, or only leave a mark in its facts and on its charts."""

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""A scalar on the wire: strict JSON has no NaN, so the three travel as strings."""


class In(BaseModel):
    """Base of everything that comes in: no unknown fields, nothing coerced."""

    model_config = ConfigDict(extra="forbid")


class Out(BaseModel):
    """Base of everything that goes out."""

    model_config = ConfigDict(extra="forbid")


# -- verbs and commands ---------------------------------------------------------------------------

CommandId = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Verb(In):
    """A verb with nothing to say; the id makes a retry safe."""

    id: CommandId | None = None


class StepVerb(Verb):
    """How many steps to let pass."""

    n: Annotated[StrictInt, Field(ge=1, le=1_000_000_000)] = 1


class RunUntilVerb(Verb):
    """The step to park at."""

    step: Annotated[StrictInt, Field(ge=0, le=10**15)]


class CommandIn(In):
    """Any command of the registry."""

    command: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_]{1,64}$")]
    payload: dict[str, Any] = Field(default_factory=dict)
    id: CommandId | None = None


class CommandOut(Out):
    """One line of the command log."""

    id: str
    seq: int
    """Place in the one total order of verbs and commands."""
    command: str
    payload: dict[str, Any]
    who: Who
    status: CommandStatus
    reason: str | None = None
    """Why it was refused or failed."""
    result: Any = None
    step: int | None = None
    """Finished steps when it took effect."""
    submitted_at: float
    """Wall time, seconds since 1970."""
    duration_s: float | None = None
    progress: float | None = None


# -- state ----------------------------------------------------------------------------------------


class ExplanationOut(Out):
    """A rule's finding in words."""

    title: str
    means: str
    causes: list[str]
    """What usually causes it, most frequent first."""
    advice: list[str]
    """What to try."""


class Evidence(Out):
    """What a breakpoint saw when it stopped the run."""

    breakpoint: int
    condition: str
    """In words: `loss z-score > 4`."""
    value: Number | None
    limit: Number | None
    step: int
    samples: list[int]
    """Ids of the samples that carry it, at most 128."""
    note: str | None = None
    """For example: `6 of 128 samples carry 38 % of the loss`."""
    layer: str | None = None
    """Name of the parameter or module, where a rule names one."""
    action: BreakpointAction = "pause"
    rule: str | None = None
    """Name of the rule, where it was one."""
    explanation: ExplanationOut | None = None
    """What it means, what usually causes it, what to try; of rules."""


class StateOut(Out):
    """The real state of a live run, never the hoped-for one."""

    state: RunState
    paused: bool
    """Asked to pause."""
    parked: bool
    """The training thread really stands at the boundary."""
    stopped: bool
    step: int
    """Finished optimizer steps."""
    total_steps: int | None
    epoch: int | None
    total_epochs: int | None
    loss: Number | None
    lr: Number | None
    steps_per_s: float | None
    timeline: int
    has_batch: bool
    batch_step: int | None
    """The index of the captured batch; it changes when there is a new picture to fetch."""
    step_data_keys: list[str]
    step_data_step: int | None
    step_data_panels: dict[str, PanelKind]
    """Which kind of panel shows an entry, for the keys that came with a hint."""
    breakpoint: Evidence | None
    """Why it stands, when a breakpoint stopped it."""
    waiting_for: str | None
    """What a pause waits for: `in validation, 40 of 79`."""
    reason: str | None
    """Why it stands or ended, when it was not the user: a full disk, an exception."""
    busy_with: str | None
    """Id of the command that runs at the boundary."""
    steps_left: int | None
    """Steps still to pass before it parks again."""
    run_until: int | None
    boundary_age_s: float
    """Seconds since the training thread last reached a boundary."""
    offers: list[str]
    """Names of the verbs and commands that this run takes."""


# -- batch and step data --------------------------------------------------------------------------


class GridOut(Out):
    """How to cut the picture into tiles: tile i is at column i % columns, row i // columns."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    channels: int
    low: Number
    """Value drawn black."""
    high: Number
    """Value drawn white."""


class BatchOut(Out):
    """The last captured batch."""

    step: int
    """Index of the batch, finished steps minus one."""
    loss: Number | None
    kind: Literal["images", "tokens", "vectors", "other"]
    shape: list[int]
    dtype: str
    count: int
    """Samples in the batch."""
    shown: int
    """Samples in the picture or the rows, at most 512."""
    png: str | None
    """Base64 PNG of the grid, for images."""
    grid: GridOut | None
    rows: list[list[Number]] | None
    """First values of each sample, for tokens and vectors."""
    labels: list[Number | str] | None
    losses: list[Number] | None
    sample_ids: list[int] | None


class TensorSummary(Out):
    """A tensor too large to send as JSON."""

    summary: Literal[True] = True
    shape: list[int]
    dtype: str
    elements: int
    finite: int
    mean: Number | None
    std: Number | None
    min: Number | None
    max: Number | None


# -- breakpoints and watches ----------------------------------------------------------------------

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
Limit = Annotated[StrictFloat | StrictInt, Field(allow_inf_nan=False)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=128)]


class StepCondition(In):
    """Park when this many steps are finished."""

    kind: Literal["step"]
    step: Annotated[StrictInt, Field(ge=0, le=10**15)]


class EveryCondition(In):
    """Park every n steps."""

    kind: Literal["every"]
    n: Annotated[StrictInt, Field(ge=1, le=10**15)]


class NonFiniteCondition(In):
    """Park when the loss is NaN or infinite."""

    kind: Literal["loss_nonfinite"]


class LossZCondition(In):
    """Park when the loss lies this many standard deviations above its recent mean."""

    kind: Literal["loss_z"]
    limit: Annotated[Limit, Field(gt=0)] = 4.0
    window: Annotated[StrictInt, Field(ge=8, le=100_000)] = 200


class GradNormCondition(In):
    """Park when the gradient norm is above a limit."""

    kind: Literal["grad_norm"]
    limit: Annotated[Limit, Field(gt=0)]


class MetricCondition(In):
    """Park when a logged scalar compares so with a value."""

    kind: Literal["metric"]
    name: Name
    op: Literal["<", "<=", ">", ">=", "==", "!="]
    value: Limit


class SampleCondition(In):
    """Park when one of these samples was in the batch."""

    kind: Literal["sample"]
    ids: Annotated[list[StrictInt], Field(min_length=1, max_length=10_000)]


class ExpressionCondition(In):
    """Park when an expression over this step's scalars is true."""

    kind: Literal["expression"]
    expression: Annotated[StrictStr, Field(min_length=1, max_length=500)]


class RuleCondition(In):
    """Park when a ready-made rule finds something; what is left out is the rule's own default."""

    kind: Literal["rule"]
    rule: RuleName
    limit: Annotated[Limit, Field(ge=0)] | None = None
    low: Annotated[Limit, Field(ge=0)] | None = None
    """A lower limit beside it, for `update_ratio`."""
    window: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    """Measurements in a row, or steps that are compared."""
    every: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    """Measured every so many steps."""
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
    action: BreakpointAction = "pause"


class BreakpointPatch(In):
    """Switch a breakpoint on or off, or let it stop the run or only mark it."""

    enabled: StrictBool | None = None
    action: BreakpointAction | None = None


class BreakpointOut(Out):
    """A breakpoint with what it has done so far."""

    id: int
    condition: ConditionIn
    words: str
    """The condition in words, as the list shows it."""
    enabled: bool
    action: BreakpointAction
    hits: int
    hit_steps: list[int]
    """Steps of the last hits, at most 100."""
    window: int | None
    mean: float | None
    """Mean of the window now, where it has one."""
    std: float | None
    costs_sync: bool
    """Whether it costs a device synchronisation each step."""
    cost_s: float | None
    """Seconds that its measuring costs a step on average, where a rule measures anything."""
    missing: list[str]
    """What it reads and no step has had so far: a scalar, perhaps misspelt, or a model."""


class WatchIn(In):
    """The new watch list of one source; no rows and no source: nothing is watched any more."""

    feature_ids: Annotated[list[StrictInt], Field(max_length=64)]
    source: Name | None = None
    """The run's default one when left out."""


class WatchOut(Out):
    """What is watched."""

    source: str | None
    """The one that was chosen last."""
    feature_ids: list[int]
    """Its watched rows."""
    others: dict[str, list[int]]
    """Watched rows of other sources."""
    sources: list[str]
    """Names of the tensors whose rows can be watched."""


class SourceTrajectories(Out):
    """Points of the rows of one source, also of those no longer watched."""

    watched: list[int]
    trajectories: dict[str, list[dict[str, Number | None]]]
    """By feature id."""
    pairwise: dict[str, list[dict[str, Number]]]
    """By pair `a,b` with a < b: points `{step, cos}`."""


class TrajectoriesOut(SourceTrajectories):
    """Points of the source that was chosen last, and of the others by name."""

    source: str | None
    others: dict[str, SourceTrajectories]
    exact: bool
    """Whether every point that is kept is here; if not, ask for more with `points`."""


# -- runs and facts -------------------------------------------------------------------------------


class RunOut(Out):
    """One run, live or finished."""

    id: str
    name: str
    directory: str
    """Name of its directory under the outputs root; never an absolute path."""
    state: RunState
    live: bool
    """Whether commands can reach it from here."""
    step: int | None
    total_steps: int | None
    started_at: float | None
    """Wall time, seconds since 1970."""
    attempt: int
    timeline: int
    scalars: list[str]
    """Names of the series it has."""


class RunDetail(RunOut):
    """One run with its header record."""

    header: dict[str, Any]
    """Config, git commit, host, device, seed."""
    commands: list[str]
    """Names of the commands it takes."""


class RunList(Out):
    """Runs, newest first."""

    runs: list[RunOut]
    total: int


class SeriesOut(Out):
    """One series: exact points, or min/max buckets when there were too many."""

    step: list[int]
    low: list[Number]
    high: list[Number]
    """Equal to `low` when exact."""
    exact: bool
    count: int
    """Points that are behind it."""


class ScalarsOut(Out):
    """Series of a run."""

    seq: int
    """Facts up to this sequence number are in it; the stream goes on behind."""
    timeline: int
    series: dict[str, SeriesOut]


class EventsOut(Out):
    """Lifecycle records in order."""

    events: list[dict[str, Any]]
    seq: int
    more: bool


# -- stream ---------------------------------------------------------------------------------------


class HelloMessage(Out):
    """First message of every connection; `resumed` says whether the sequence goes on unbroken."""

    type: Literal["hello"] = "hello"
    run: str
    timeline: int
    seq: int
    """Durable messages behind this number follow."""
    resumed: bool
    state: StateOut
    breakpoints: list[BreakpointOut]
    version: str
    can_control: bool


class StateMessage(Out):
    """The state changed. Volatile: latest only."""

    type: Literal["state"] = "state"
    state: StateOut
    dropped: int
    """Frames this viewer missed because it was slow."""


class ScalarsMessage(Out):
    """Scalars since the last frame, by column. Durable."""

    type: Literal["scalars"] = "scalars"
    first_seq: int
    last_seq: int
    timeline: int
    step: list[int]
    columns: dict[str, list[Number | None]]


class EventMessage(Out):
    """A lifecycle record or an intervention. Durable."""

    type: Literal["event"] = "event"
    seq: int
    record: dict[str, Any]


class CommandMessage(Out):
    """A command changed its status. Volatile; its end is also an `event`."""

    type: Literal["command"] = "command"
    command: CommandOut


class BreakpointsMessage(Out):
    """The list of breakpoints changed. Volatile."""

    type: Literal["breakpoints"] = "breakpoints"
    breakpoints: list[BreakpointOut]


class PingMessage(Out):
    """Sent when nothing else was for a second, so that silence means trouble."""

    type: Literal["ping"] = "ping"
    at: float


StreamMessage = Annotated[
    HelloMessage
    | StateMessage
    | ScalarsMessage
    | EventMessage
    | CommandMessage
    | BreakpointsMessage
    | PingMessage,
    Field(discriminator="type"),
]


class StreamEnvelope(RootModel[StreamMessage]):
    """Any message of the stream; `StreamMessage` in the OpenAPI document."""


# -- odds and ends --------------------------------------------------------------------------------


class Health(Out):
    """An answer without run data, open to all."""

    status: Literal["ok"] = "ok"
    version: str


class Problem(Out):
    """Every refusal: what happened and what to do."""

    error: str
    """A short stable word: `running`, `not_found`, `expression`."""
    message: str
    field: str | None = None
    command_id: str | None = None
    incident: str | None = None
    """Id of an unhandled error in the server's log."""
