"""Wire types of the stream's messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from midstep.server.models import CommandOut, Number, Out, StateOut
from midstep.server.models_breakpoints import BreakpointOut
from midstep.server.models_runs import RunOut


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


class RunsMessage(Out):
    """Changes of the list of runs; the first has the live ones. Volatile, at most two a second."""

    type: Literal["runs"] = "runs"
    runs: list[RunOut]
    """Those that changed or came."""
    removed: list[str]
    """Ids of those that went."""
    states: dict[str, int]
    """How many runs are in each state."""
    total: int


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
    | RunsMessage
    | PingMessage,
    Field(discriminator="type"),
]


class StreamEnvelope(RootModel[StreamMessage]):
    """Any message of the stream; `StreamMessage` in the OpenAPI document."""
