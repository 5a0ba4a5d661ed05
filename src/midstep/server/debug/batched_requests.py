"""Several GET requests in one, for what an open page requests each second.

On the machine of the training the number of requests costs more than most responses: a browser
spends some 7 ms of CPU on each, and the server thread wakes up some ten times.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Message, Scope

from midstep.server.auth.guard import replay
from midstep.server.problems import Refusal
from midstep.server.responses import BINARY, json_bytes

router = APIRouter()

NAME = "together"
MOST_QUESTIONS = 16
"""Parts of one request; an open page needs fewer."""
MOST_BYTES = 64 << 20
"""Bodies of all parts. A part that does not fit any more must be requested alone."""
_IS_PART = "midstep.is_part"
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
    if _IS_PART in request.scope:
        raise Refusal(422, "invalid", f"ask: {NAME} cannot contain itself.", field="ask")
    scopes = [_scope(request.scope, each) for each in ask]
    parts: list[_Recorded] = []
    for scope in scopes:
        left = MOST_BYTES - sum(len(part.body) for part in parts)
        parts.append(await _call(request, scope, left))
    heads = [{"status": part.status, "bytes": len(part.body)} for part in parts]
    bodies = (part.body for part in parts)
    return Response(
        b"".join((json_bytes(heads), b"\n", *bodies)), media_type="application/octet-stream"
    )


class _Recorded:
    """Keeps the response that a route sends, up to a number of bytes.

    Args:
        most_bytes: a longer response is replaced by a refusal.
    """

    def __init__(self, most_bytes: int) -> None:
        self.status = 500
        self.body = bytearray()
        self._most_bytes = most_bytes
        self._is_too_long = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif not self._is_too_long:
            self.body += message.get("body", b"")
            if len(self.body) > self._most_bytes:
                self._is_too_long = True
                text = f"The responses have more than {MOST_BYTES:,} bytes. Request this one alone."
                refusal = Refusal(413, "too_large", text)
                self.status, self.body = refusal.status, bytearray(refusal.answer().body)


async def _call(request: Request, scope: Scope, most_bytes: int) -> _Recorded:
    """Call the whole app for one part, so that the guard checks it like any other request."""
    response = _Recorded(most_bytes)
    # A GET has no body. After it, `receive` waits until the caller is gone, as for any request:
    # one that always answers at once would keep whoever waits for that busy for ever.
    empty: Message = {"type": "http.request", "body": b"", "more_body": False}
    await request.app(scope, replay(empty, request.receive), response.send)
    return response


def _scope(scope: Scope, address: str) -> Scope:
    raw_name, _, query = address.partition("?")
    name, base = unquote(raw_name), scope["path"].removesuffix(NAME)
    if name == NAME:
        raise Refusal(422, "invalid", f"ask: {NAME} cannot contain itself.", field="ask")
    # The pattern of a route also fits an address with a line break after it.
    if not name.isprintable():
        raise Refusal(422, "invalid", f"ask: expected an address, got {name!r}.", field="ask")
    return {
        **{key: value for key, value in scope.items() if key not in _ROUTE_KEYS},
        _IS_PART: True,
        "path": base + name,
        "raw_path": (base + raw_name).encode(errors="replace"),
        "query_string": query.encode(errors="replace"),
    }
