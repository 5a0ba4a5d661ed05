"""The stream of one run as server-sent events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field, RootModel
from starlette.responses import Response

from midstep.server.debug.breakpoint_schemas import BreakpointOut
from midstep.server.debug.command_schemas import CommandOut, StateOut
from midstep.server.dependencies import CanControl, table_of
from midstep.server.runs.run_schemas import RunOut
from midstep.server.schema_base import Number, Out
from midstep.server.stream.run_list_stream import ListStream, RunListStream
from midstep.server.stream.run_stream import RunStreams
from midstep.server.stream.sse_response import SseResponse


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


router = APIRouter(prefix="/api/v1", tags=["stream"])


@router.get(
    "/stream",
    response_class=SseResponse,
    responses={
        200: {
            "model": StreamEnvelope,
            "description": "Server-sent events; the data of each is one message. "
            "Durable ones carry the id `<timeline>.<seq>`.",
        }
    },
)
def stream(
    request: Request,
    can_control: CanControl,
    run: Annotated[
        str | None,
        Query(
            max_length=64,
            description="Id of the run; else the only live one, or the list where there are many.",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="`<timeline>.<seq>` of the last durable message seen.")
    ] = None,
) -> Response:
    """Typed messages from now on, or behind `Last-Event-ID` with no gap and no repeat.

    Under `midstep serve`, without a run: changes of the list (`runs`).
    """
    listing: RunListStream | None = request.app.state.list_hub
    if run is None and listing is not None:
        return ListStream(listing)
    table = table_of(request)
    entry = table.only() if run is None else table.get(run)
    hubs: RunStreams = request.app.state.hubs
    return SseResponse(hubs.of(entry), last_event_id=last_event_id, can_control=can_control)
