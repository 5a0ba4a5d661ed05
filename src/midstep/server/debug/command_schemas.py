"""Requests and responses of verbs and commands; the state of a run; how far back it can go.

Request models are built from the definitions in `core.commands`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, create_model

from midstep.control import CommandRecord
from midstep.control.command_record import Status, Who
from midstep.control.panels import PanelKind
from midstep.core.commands.definition import (
    Below,
    CommandDefinition,
    Least,
    Most,
    PayloadField,
    split_annotated,
)
from midstep.server.array_json import nonfinite_pointers
from midstep.server.debug.breakpoint_schemas import Evidence
from midstep.server.schema_base import In, Number, Out, RunState

_BOUNDS = {Least: "ge", Most: "le", Below: "lt"}
_STRICT = {int: StrictInt, float: StrictInt | StrictFloat, bool: StrictBool, str: StrictStr}
CommandId = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Verb(In):
    """The body of a verb without settings; the id makes a retry safe."""

    id: CommandId | None = None


class CommandIn(In):
    """Any command by its name, also one that a plug-in registered."""

    # A free-form payload: the command queue checks it, and it alone knows the plug-ins. The OpenAPI
    # document adds the payloads of known commands (`command_model`).
    command: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_]{1,64}$")]
    payload: dict[str, Any] = Field(default_factory=dict)
    id: CommandId | None = None


def verb_model(definition: CommandDefinition[Any]) -> type[Verb]:
    """Return the body of a verb's route: the fields of its payload, and an id."""
    if not definition.fields:
        return Verb
    return create_model(
        f"{_class_name(definition)}In",
        __base__=Verb,
        __doc__=definition.help,
        **_model_fields(definition),
    )


def command_model(definition: CommandDefinition[Any]) -> type[In]:
    """Return the body of `POST commands` for one known command, for the OpenAPI document."""
    name = _class_name(definition)
    payload = create_model(f"{name}Payload", __base__=In, **_model_fields(definition))
    required = any(field.is_required for field in definition.fields.values())
    return create_model(
        f"{name}CommandIn",
        __base__=In,
        __doc__=definition.help,
        command=(Literal[definition.names], ...),  # type: ignore[arg-type]
        payload=(payload, ...) if required else (payload, Field(default_factory=payload)),
        id=(CommandId | None, None),
    )


def _class_name(definition: CommandDefinition[Any]) -> str:
    return "".join(word.capitalize() for word in definition.name.split("_"))


def _model_fields(definition: CommandDefinition[Any]) -> dict[str, Any]:
    """Return what `create_model` takes: type and default of each field."""
    return {name: _model_field(field) for name, field in definition.fields.items()}


def _model_field(field: PayloadField) -> tuple[Any, Any]:
    type_ = _strict_type(field.type, field.limits)
    if field.is_optional:
        type_ = type_ | None
    default = ... if field.is_required else field.default
    return type_, Field(default, description=field.help or None)


def _strict_type(type_: Any, limits: Iterable[Any]) -> Any:
    """Return the type with its limits as pydantic checks them, without conversions."""
    if get_origin(type_) is tuple:
        items = [_strict_type(*split_annotated(item)) for item in get_args(type_)]
        return tuple[tuple(items)]  # type: ignore[misc]
    bounds = {_BOUNDS[type(limit)]: limit.value for limit in limits if type(limit) in _BOUNDS}
    return Annotated[_STRICT.get(type_, type_), Field(**bounds)]


class CommandOut(Out):
    """One line of the command log."""

    id: str
    seq: int
    """Position in the order of all commands of the run."""
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
    nonfinite: tuple[str, ...] = ()
    """JSON pointers of numbers in `result` that are sent as the strings NaN, Infinity or -Infinity.
    Left out if there is none."""


def command_json(record: CommandRecord) -> dict[str, Any]:
    """Return the fields of `CommandOut`."""
    command = record.command
    nonfinite = nonfinite_pointers(record.result, "/result")
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
        **({"nonfinite": nonfinite} if nonfinite else {}),
    }


class RepeatedOut(Out):
    """Repeated steps, compared with the record of the first time."""

    exact: bool | None
    """Whether they gave the same bits; null if that is unknown, or a difference is explained."""
    verdict: Literal["exact", "repeatable", "moved", "differs", "close"] | None
    """`repeatable`: there is no record, and a step that was made twice came out alike. `moved`: ids
    or learning rate differ. `differs`: loss or weights do. `close`: something
    else explains the difference. null: nothing was compared."""
    text: str
    cause: str
    """`resume` or `back`."""
    steps: int
    """How many steps were compared."""
    compared: dict[str, int]
    """How many values of each kind were compared: ids, lr, loss, weights."""
    step: int | None
    """The first step that differs."""
    what: str | None
    """What differs there: batch ids, lr, loss or weights."""
    recorded: Number | None
    repeated: Number | None


class StateOut(Out):
    """The state of a live run as it is, not as it will be after waiting commands."""

    number: int = 0
    """Grows with every change: of two responses that arrive out of order, it tells the newer."""
    state: RunState
    paused: bool
    """Whether a pause is requested."""
    parked: bool
    """Whether the training thread waits at a step boundary."""
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
    """Index of the captured batch; it changes when there is a new picture to fetch."""
    step_data_keys: list[str]
    """Keys of the newest step data; while the run moves, also those that it would capture if they
    were subscribed."""
    step_data_offered: list[str]
    """Keys that hooks and loops push if they are in view, captured or not."""
    step_data_step: int | None
    step_data_additions: int = 0
    """How often a command added step data to this step; it changes when there is more to fetch."""
    step_data_panels: dict[str, PanelKind]
    """Kind of panel by key, for entries that came with a panel."""
    breakpoint: Evidence | None
    """Why the run is paused, if a breakpoint paused it."""
    diagnosed_step: int | None = None
    """The step of the last stop whose cause was looked for; GET …/diagnosis has the answer. For an
    error it is the step that raised."""
    repeated: RepeatedOut | None = None
    """How the last repeated steps, after a resume or `back`, compare with the first time."""
    phase: str | None = None
    """Long work between two steps, such as a validation, under the name that the loop gave it."""
    phase_s: float | None = None
    """How long that work has lasted, if the loop has named it."""
    waiting_for: str | None
    """What a pause waits for: `in validation, 40 of 79`."""
    reason: str | None
    """Why the run is paused or has ended, if not by a command: a full disk, an exception."""
    busy_with: str | None
    """Id of the command that runs at the boundary."""
    steps_left: int | None
    """Steps to run before the run pauses again."""
    run_until: int | None
    boundary_age_s: float
    """Seconds since the training thread last reached a boundary."""
    offers: list[str]
    """Names of the commands that this run takes, aliases included."""
    checkpoints_off: str | None = None
    """Why no more checkpoints are taken; None while they are."""


class RewindOut(Out):
    """How far back the run can go, and what that costs."""

    available: bool
    """Whether there is an earlier step to go to."""
    reason: str | None
    """Why there is none."""
    first_step: int | None
    """The oldest step that can be reached."""
    step: int
    """The present step of the run."""
    snapshot_steps: list[int]
    """Steps with a snapshot. Others are reached by repeating steps from the snapshot before."""
    bytes: int
    """Host memory that the snapshots take."""
    budget_bytes: int
    """Most host memory that they may take."""
    replay_cost_s: float | None
    """Estimated longest time to go back, in seconds; None before it is known."""
    timeline: int
    """How often the run went back."""
