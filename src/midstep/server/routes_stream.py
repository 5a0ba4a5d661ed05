"""The stream of one run as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from midstep.server.asked import CanControl, table_of
from midstep.server.event_stream import EventStream
from midstep.server.list_stream import ListHub, ListStream
from midstep.server.models_stream import StreamEnvelope
from midstep.server.stream import HubTable

router = APIRouter(prefix="/api/v1", tags=["stream"])


@router.get(
    "/stream",
    response_class=EventStream,
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
    listing: ListHub | None = request.app.state.list_hub
    if run is None and listing is not None:
        return ListStream(listing)
    table = table_of(request)
    entry = table.only() if run is None else table.get(run)
    hubs: HubTable = request.app.state.hubs
    return EventStream(hubs.of(entry), last_event_id=last_event_id, can_control=can_control)
