"""What may enter and leave over HTTP. The OpenAPI document and the page's types come from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
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

    number: int = 0
    """Grows with every change: of two that cross on their way, the larger one is the newer."""
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
    step_data_additions: int = 0
    """How often a command put something beside this step's data: then there is more to fetch."""
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


# -- runs and facts -------------------------------------------------------------------------------


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


# -- odds and ends --------------------------------------------------------------------------------


class Health(Out):
    """An answer without run data, open to all."""

    status: Literal["ok"] = "ok"
    version: str
    proofs: list[str]
    """Keyed hashes of a challenge, one per token: see `midstep.client.proof`. Empty without one."""


class Problem(Out):
    """Every refusal: what happened and what to do."""

    error: str
    """A short stable word: `running`, `not_found`, `expression`."""
    message: str
    field: str | None = None
    command_id: str | None = None
    incident: str | None = None
    """Id of an unhandled error in the server's log."""
