"""The route of the stream: server-sent events of one run, or of the run list."""

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
from midstep.server.stream.run_list_stream import ListStreamResponse, RunListStream
from midstep.server.stream.run_stream import RunStreams
from midstep.server.stream.sse_response import RunStreamResponse


class HelloMessage(Out):
    """First message of every connection; `resumed`: it continues after the given event id."""

    type: Literal["hello"] = "hello"
    run: str
    timeline: int
    seq: int
    """Durable messages with sequence numbers above this one follow."""
    resumed: bool
    state: StateOut
    breakpoints: list[BreakpointOut]
    version: str
    can_control: bool
    stream: str
    """Id of this connection; PUT …/debug/streams/{stream}/subscriptions names what it shows."""
    captures: bool
    """Whether the run is live and can be subscribed."""


class ThinningOut(Out):
    """What was left out of a capture."""

    every: int
    """One of so many steps was captured."""
    shown: int | None
    """Samples that are shown; null outside a batch."""
    of: int | None
    """Samples in the batch."""


class CaptureMessage(Out):
    """Something that this stream has subscribed to can be read. Volatile, the newest of each id."""

    type: Literal["capture"] = "capture"
    id: str
    """The id that the subscription chose."""
    step: int
    """Finished steps after the captured step."""
    timeline: int
    etag: str
    """Names the capture."""
    bytes: int
    """Bytes that the run holds of it."""
    thinning: ThinningOut | None
    """Null if nothing was left out."""


class StateMessage(Out):
    """The state changed. Volatile: only the newest is sent."""

    type: Literal["state"] = "state"
    state: StateOut
    dropped: int
    """Frames that this viewer missed because it was slow."""


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
    """Changes of the run list, at most two a second; the first has the live runs. Volatile."""

    type: Literal["runs"] = "runs"
    runs: list[RunOut]
    """Runs that changed or are new."""
    removed: list[str]
    """Ids of runs that are gone."""
    states: dict[str, int]
    """How many runs are in each state."""
    total: int


class PingMessage(Out):
    """Sent after a second without other messages; longer silence means a lost connection."""

    type: Literal["ping"] = "ping"
    at: float


StreamMessage = Annotated[
    HelloMessage
    | StateMessage
    | ScalarsMessage
    | EventMessage
    | CommandMessage
    | BreakpointsMessage
    | CaptureMessage
    | RunsMessage
    | PingMessage,
    Field(discriminator="type"),
]


class StreamEnvelope(RootModel[StreamMessage]):
    """Any message of the stream; `StreamMessage` in the OpenAPI document."""


router = APIRouter(prefix="/api/v1", tags=["stream"])


@router.get(
    "/stream",
    response_class=RunStreamResponse,
    responses={
        200: {
            "model": StreamEnvelope,
            "description": "Server-sent events; the data of each is one message. "
            "Durable messages have the id `<timeline>.<seq>`.",
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
            description="Id of the run. Left out: the only live run, or under `midstep serve` "
            "the list of runs.",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="`<timeline>.<seq>` of the last durable message received.")
    ] = None,
) -> Response:
    """Messages from now on, or all after `Last-Event-ID` without a gap or a repetition.

    Under `midstep serve`, without a run: changes of the list (`runs`).
    """
    run_list: RunListStream | None = request.app.state.list_stream
    if run is None and run_list is not None:
        return ListStreamResponse(run_list)
    table = table_of(request)
    view = table.only() if run is None else table.get(run)
    streams: RunStreams = request.app.state.run_streams
    return RunStreamResponse(
        streams.stream(view), last_event_id=last_event_id, can_control=can_control
    )
