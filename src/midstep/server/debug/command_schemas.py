"""Requests and responses of verbs and commands; the state of a run; how far back it can go."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr, model_validator

from midstep.control import CommandRecord
from midstep.control.command_record import Status, Who
from midstep.control.panels import PanelKind
from midstep.server.debug.breakpoint_schemas import Evidence
from midstep.server.schema_base import In, Number, Out, RunState

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


class BackVerb(Verb):
    """How far to go back: n steps, or to a step; one step when nothing is said."""

    n: Annotated[StrictInt, Field(ge=1, le=1_000_000_000)] | None = None
    step: Annotated[StrictInt, Field(ge=0, le=10**15)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> BackVerb:
        if self.n is not None and self.step is not None:
            raise ValueError("give n or step, not both")
        return self


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
    status: Status
    reason: str | None = None
    """Why it was refused or failed."""
    result: Any = None
    step: int | None = None
    """Finished steps when it took effect."""
    submitted_at: float
    """Wall time, seconds since 1970."""
    duration_s: float | None = None
    progress: float | None = None


def command_json(record: CommandRecord) -> dict[str, Any]:
    """The fields of `CommandOut`."""
    command = record.command
    return {
        "id": command.id,
        "seq": record.seq,
        "command": command.name,
        "payload": dict(command.payload),
        "who": command.who,
        "status": record.status,
        "reason": record.reason,
        "result": record.result,
        "step": record.step,
        "submitted_at": record.submitted_at,
        "duration_s": record.duration_s,
        "progress": record.progress,
    }


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


class RewindOut(Out):
    """How far back one can go, and what that takes."""

    available: bool
    """Whether there is a step to go back to."""
    reason: str | None
    """Why not, where there is none."""
    first_step: int | None
    """The oldest step that can be reached."""
    step: int
    """Where the run stands."""
    snapshot_steps: list[int]
    """Steps that are reached at once; others by repeating the steps behind the one before."""
    bytes: int
    """Host memory that the snapshots take."""
    budget_bytes: int
    """The most they may take."""
    replay_cost_s: float | None
    """About how long going back takes at most; None before it is known."""
    timeline: int
    """How often the run was taken back."""
