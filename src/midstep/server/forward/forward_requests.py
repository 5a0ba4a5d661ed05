"""Requests to a live run go to its own process, answers come back as they are made.

Plain ASGI behind the guard. What stands in a request's headers is chosen, not copied: the run sees
its own token, of the same role, and nothing of the browser. Memory is bounded by the slower side.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from midstep.core.ids import is_run_id
from midstep.server.auth.guard import WRITES
from midstep.server.auth.tokens import Tokens
from midstep.server.forward.live_sockets import (
    SILENT_S,
    LiveSocket,
    find_live_socket,
    heartbeat_age_s,
)
from midstep.server.forward.unix_http import Head, UnixHttpRequest, UpstreamGone
from midstep.server.problems import Refusal
from midstep.server.stream.sse_response import SseWriter, until_gone

log = logging.getLogger("midstep.server")
LOOK_EVERY_S = 1.0
"""While an answer is awaited, how often it is asked whether the run is still there."""
LONGEST_S = 120.0
"""No single answer takes longer to begin."""
STUCK_S = 10.0
"""A viewer that takes nothing for this long is cut off; it may come back with its last id."""
STREAM = "/api/v1/stream"
ONLY = "only"
"""Stands for the only live run, which the short addresses mean."""
_RUNS = "/api/v1/runs/"
_ASKED = frozenset({b"accept", b"content-type", b"last-event-id", b"x-midstep-who"})
_ANSWERED = frozenset(
    {b"allow", b"cache-control", b"content-disposition", b"content-length", b"content-type"}
    | {b"retry-after", b"x-accel-buffering"}
)


class RunPlaces(Protocol):
    """Where runs are."""

    def directory(self, run_id: str) -> Path | None:
        """The run directory of an id, by listing; None for every other id."""
        ...

    def live(self) -> list[Path]:
        """The directories of the runs that have not ended."""
        ...


def forwarded_run(scope: Scope) -> str | None:
    """The id of the run whose own process should answer; None for what is answered here.

    >>> forwarded_run({"path": "/api/v1/runs/000000000000/debug/state"})
    '000000000000'
    >>> forwarded_run({"path": "/api/v1/runs/000000000000/scalars"}) is None
    True
    """
    path: str = scope["path"]
    if path.startswith("/debug/"):
        return ONLY
    if path == STREAM:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("run", [])
        found = asked[0] if len(asked) == 1 else ""
    else:
        found, _, rest = path.removeprefix(_RUNS).partition("/")
        if not path.startswith(_RUNS) or rest.partition("/")[0] not in ("debug", "commands"):
            return None
    return found if is_run_id(found) else None


class Forward:
    """ASGI middleware in front of the routes that show stored runs.

    Args:
        app: answers for everything that is not forwarded.
        places: finds the run directory of an id, by listing.
        closing: set when the server goes.
    """

    def __init__(self, app: ASGIApp, *, places: RunPlaces, closing: asyncio.Event) -> None:
        self.app, self._places, self._closing = app, places, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To the run, if it lives and has a socket; else on to the routes."""
        run_id = forwarded_run(scope) if scope["type"] == "http" else None
        lane = None if run_id is None else await asyncio.to_thread(self._lane, run_id)
        if lane is None:
            await self.app(scope, receive, send)
            return
        if await _is_silent(lane):
            if not _can_be_stored(scope):
                raise await _not_responding(lane)
            await self.app(scope, receive, send)
            return
        body = await _body(scope, receive)
        try:
            async with _connected(lane) as upstream:
                await self._exchange(lane, upstream, scope, receive, send, body)
        except _NotBegun:  # it ended in between: its facts answer
            await self.app(scope, _replayed(body, receive), send)

    def _lane(self, run_id: str) -> LiveSocket | None:
        if run_id == ONLY:
            live = self._places.live()
            run_dir = live[0] if len(live) == 1 else None
        else:
            run_dir = self._places.directory(run_id)
        return None if run_dir is None else find_live_socket(run_dir)

    async def _exchange(
        self,
        lane: LiveSocket,
        upstream: UnixHttpRequest,
        scope: Scope,
        receive: Receive,
        send: Send,
        body: bytes,
    ) -> None:
        gone = asyncio.create_task(until_gone(receive))
        closing = asyncio.create_task(self._closing.wait())
        try:
            head = await _head(lane, upstream, scope, body, gone, closing)
            if head is not None:
                await _answer(lane, upstream, head, scope, send, gone, closing)
        finally:
            for task in (gone, closing):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


class _NotBegun(Exception):  # noqa: N818 - it is answered otherwise
    """The run could not be reached, and nothing was answered yet."""


@asynccontextmanager
async def _connected(lane: LiveSocket) -> AsyncIterator[UnixHttpRequest]:
    try:
        upstream = await UnixHttpRequest.open(lane.socket)
    except UpstreamGone as error:
        raise _NotBegun from error
    try:
        yield upstream
    finally:
        upstream.close()


async def _head(
    lane: LiveSocket,
    upstream: UnixHttpRequest,
    scope: Scope,
    body: bytes,
    gone: asyncio.Task[None],
    closing: asyncio.Task[Any],
) -> Head | None:
    """The beginning of the run's answer; None when whoever asked has gone."""
    asked = asyncio.create_task(_ask(lane, upstream, scope, body))
    until = time.monotonic() + LONGEST_S
    try:
        while not asked.done():
            await asyncio.wait(
                {asked, gone, closing}, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            if asked.done():
                break
            if gone.done() or closing.done():
                return None
            if await _is_silent(lane) or time.monotonic() > until:
                if _can_be_stored(scope):
                    raise _NotBegun
                raise await _not_responding(lane, sent=scope["method"] in WRITES)
        return _translated(await asked)
    except UpstreamGone as error:
        raise _NotBegun from error
    finally:
        asked.cancel()


async def _ask(lane: LiveSocket, upstream: UnixHttpRequest, scope: Scope, body: bytes) -> Head:
    tokens = await asyncio.to_thread(Tokens.for_root, lane.run_dir.parent)
    role = scope["state"]["midstep_role"]
    query = scope.get("query_string", b"")
    target = scope.get("raw_path") or scope["path"].encode()
    headers = [(name, value) for name, value in scope["headers"] if name.lower() in _ASKED]
    secret = b"Bearer " + tokens.of(role).encode()
    await upstream.send(
        scope["method"],
        target + (b"?" + query if query else b""),
        [(b"host", b"localhost"), (b"authorization", secret), *headers],
        body,
    )
    return await upstream.head()


def _translated(head: Head) -> Head:
    """The caller's own token was right, so a refusal of ours is no refusal of theirs."""
    if head.status in (401, 429):
        raise Refusal(
            502,
            "other_token",
            "The run does not know this server's token: it was started with another "
            "XDG_STATE_HOME. Start midstep serve with the same.",
        )
    return head


async def _answer(
    lane: LiveSocket,
    upstream: UnixHttpRequest,
    head: Head,
    scope: Scope,
    send: Send,
    gone: asyncio.Task[None],
    closing: asyncio.Task[Any],
) -> None:
    """Pass the answer on; a stream that falls silent ends, so that its viewer asks again."""
    out = SseWriter(scope, send, stuck_s=STUCK_S)
    headers = [(name, value) for name, value in head.headers if name.lower() in _ANSWERED]
    await out.start(head.status, headers)
    is_stream = scope["path"] == STREAM and head.status == 200
    whole = False
    try:
        async for piece in _pieces(lane, upstream, gone, closing, watched=is_stream):
            await out.body(piece)
        whole = True
    except UpstreamGone:
        whole = is_stream  # whoever reads a stream goes on behind the last id
    except TimeoutError:
        log.warning("a viewer took nothing for %.0f s and was cut off", STUCK_S)
    if whole and not gone.done():
        with suppress(TimeoutError):
            await out.end()
            return
    out.abort()


async def _pieces(
    lane: LiveSocket,
    upstream: UnixHttpRequest,
    gone: asyncio.Task[None],
    closing: asyncio.Task[Any],
    *,
    watched: bool,
) -> AsyncIterator[bytes]:
    pieces = upstream.pieces()
    while True:
        coming = asyncio.ensure_future(anext(pieces, None))
        try:
            while not coming.done():
                await asyncio.wait(
                    {coming, gone, closing},
                    timeout=LOOK_EVERY_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if coming.done():
                    break
                if gone.done() or closing.done() or (watched and await _is_silent(lane)):
                    return
            piece = await coming
        finally:
            if not coming.done():
                coming.cancel()
                with suppress(asyncio.CancelledError):
                    await coming
        if piece is None:
            return
        yield piece


async def _is_silent(lane: LiveSocket) -> bool:
    """Whether the process has stopped to beat: it is stopped, swapped out, or stuck."""
    age_s = await asyncio.to_thread(heartbeat_age_s, lane.run_dir)
    return age_s is not None and age_s > SILENT_S


def _can_be_stored(scope: Scope) -> bool:
    """What the facts of a silent run can answer: its stream and its state."""
    path: str = scope["path"]
    return path == STREAM or path.endswith("/debug/state")


async def _not_responding(lane: LiveSocket, *, sent: bool = False) -> Refusal:
    age_s = await asyncio.to_thread(heartbeat_age_s, lane.run_dir)
    since = "" if age_s is None else f": no heartbeat for {age_s:.0f} s"
    later = " What was asked may still be done when it goes on." if sent else ""
    return Refusal(
        504,
        "not_responding",
        f"The run's process ({lane.pid}) does not respond{since}. It may be stopped, out of "
        f"memory, or stuck in a call that never returns.{later}",
    )


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The body of a write, which the guard has read and checked."""
    if scope["method"] not in WRITES:
        return b""
    body: bytes = (await receive()).get("body", b"")
    return body


def _replayed(body: bytes, rest: Receive) -> Receive:
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return pending.pop() if pending else await rest()

    return receive
