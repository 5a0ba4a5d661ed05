"""Several questions in one request: what a page asks again and again while a run goes on.

A request takes a training on the same machine more than most answers do: a browser spends
milliseconds on each, and the server wakes some ten times.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Message, Scope

from midstep.server.problems import Refusal
from midstep.server.responses import json_bytes

router = APIRouter()

NAME = "together"
MOST_QUESTIONS = 16
_OF_THE_ROUTE = frozenset({"endpoint", "path_params", "route"})
"""What the way to this route put into its scope."""


@router.get(
    f"/{NAME}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
)
async def together(
    request: Request,
    ask: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MOST_QUESTIONS,
            description="The rest of an address behind /debug/, with its own query; once for each.",
        ),
    ],
) -> Response:
    """The answers to several GET requests, in their order, each as it would be by itself.

    The first line is JSON, a `status` and a number of `bytes` for each; the bodies follow it end to
    end.
    """
    answers = [await _answer(request, each) for each in ask]
    heads = [{"status": each.status, "bytes": len(each.body)} for each in answers]
    bodies = (each.body for each in answers)
    return Response(
        b"".join((json_bytes(heads), b"\n", *bodies)), media_type="application/octet-stream"
    )


class _Answer:
    """What a route sends, kept."""

    def __init__(self) -> None:
        self.status = 500
        self.body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


async def _answer(request: Request, asked: str) -> _Answer:
    """One question, asked of the whole app: the guard looks at it too."""
    answer = _Answer()
    await request.app(_scope(request.scope, asked), _nothing, answer.send)
    return answer


def _scope(scope: Scope, asked: str) -> Scope:
    raw_name, _, query = asked.partition("?")
    name, base = unquote(raw_name), scope["path"].removesuffix(NAME)
    if name == NAME:
        raise Refusal(422, "invalid", "One of several cannot be several again.", field="ask")
    return {
        **{key: held for key, held in scope.items() if key not in _OF_THE_ROUTE},
        "path": base + name,
        "raw_path": (base + raw_name).encode(errors="replace"),
        "query_string": query.encode(errors="replace"),
    }


async def _nothing() -> dict[str, Any]:
    """A question has no body."""
    return {"type": "http.request", "body": b"", "more_body": False}
