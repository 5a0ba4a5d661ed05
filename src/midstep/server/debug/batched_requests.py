"""Several GET requests in one, for what an open page requests each second.

On the machine of the training the number of requests costs more than most responses: a browser
spends some 7 ms of CPU on each, and the server thread wakes up some ten times.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Message, Scope

from midstep.server.problems import Refusal
from midstep.server.responses import BINARY, json_bytes

router = APIRouter()

NAME = "together"
MOST_QUESTIONS = 16
"""Parts of one request; an open page needs fewer."""
_ROUTE_KEYS = frozenset({"endpoint", "path_params", "route"})
"""Keys of the scope that belong to this route and must not reach the parts."""


@router.get(f"/{NAME}", response_class=Response, responses=BINARY)
async def together(
    request: Request,
    ask: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MOST_QUESTIONS,
            description="The part of an address after /debug/, with its query; once for each.",
        ),
    ],
) -> Response:
    """The responses to several GET requests, in their order, each as if it were sent alone.

    The first line is a JSON list with `status` and number of `bytes` of each; all bodies follow
    without separators.
    """
    parts = [await _call(request, each) for each in ask]
    heads = [{"status": part.status, "bytes": len(part.body)} for part in parts]
    bodies = (part.body for part in parts)
    return Response(
        b"".join((json_bytes(heads), b"\n", *bodies)), media_type="application/octet-stream"
    )


class _Recorded:
    """Keeps the response that a route sends."""

    def __init__(self) -> None:
        self.status = 500
        self.body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


async def _call(request: Request, address: str) -> _Recorded:
    """Call the whole app for one part, so that the guard checks it like any other request."""
    response = _Recorded()
    await request.app(_scope(request.scope, address), _receive_nothing, response.send)
    return response


def _scope(scope: Scope, address: str) -> Scope:
    raw_name, _, query = address.partition("?")
    name, base = unquote(raw_name), scope["path"].removesuffix(NAME)
    if name == NAME:
        raise Refusal(422, "invalid", f"ask: {NAME} cannot contain itself.", field="ask")
    return {
        **{key: value for key, value in scope.items() if key not in _ROUTE_KEYS},
        "path": base + name,
        "raw_path": (base + raw_name).encode(errors="replace"),
        "query_string": query.encode(errors="replace"),
    }


async def _receive_nothing() -> dict[str, Any]:
    """A `receive` of a GET request, which has no body."""
    return {"type": "http.request", "body": b"", "more_body": False}
