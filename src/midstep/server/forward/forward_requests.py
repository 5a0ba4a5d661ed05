"""Requests for a live run go to its own process; the response is passed on piece by piece.

Plain ASGI, after the guard. Headers are chosen one by one, not copied: the run gets its own token
of the caller's role, and nothing else of the browser. Only one piece is in memory at a time, so a
slow viewer slows the run's response down instead of filling memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from midstep.core.ids import is_run_id
from midstep.server.auth.guard import WRITES, replay
from midstep.server.auth.tokens import Tokens
from midstep.server.forward.live_sockets import (
    SILENT_S,
    LiveSocket,
    find_live_socket,
    heartbeat_age_s,
)
from midstep.server.forward.unix_http import Head, UnixHttpRequest, UpstreamGone
from midstep.server.problems import Refusal
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.stream.sse_response import SseWriter, until_gone

log = logging.getLogger("midstep.server")
CHECK_EVERY_S = 1.0
"""While a response is awaited, how often the heartbeat of the run is checked."""
LONGEST_S = 120.0
"""A response that has not begun after this long is given up, even if heartbeats still arrive."""
STUCK_S = 10.0
"""A viewer that reads nothing for this long is disconnected; it may reconnect with its last id."""
STREAM = "/api/v1/stream"
ONLY = "only"
"""Stands for the only live run, which the short addresses (`/debug/…`) mean."""
_RUNS = "/api/v1/runs/"
_REQUEST_HEADERS = frozenset(
    {b"accept", b"content-type", b"if-none-match", b"last-event-id", b"x-midstep-who"}
)
_RESPONSE_HEADERS = frozenset(
    {b"allow", b"cache-control", b"content-disposition", b"content-length", b"content-type"}
    | {b"etag", b"retry-after", b"x-accel-buffering"}
)


def forwarded_run(scope: Scope) -> str | None:
    """The id of the run whose process should answer; None for a request that is answered here.

    >>> forwarded_run({"path": "/api/v1/runs/000000000000/debug/state"})
    '000000000000'
    >>> forwarded_run({"path": "/api/v1/runs/000000000000/scalars"}) is None
    True
    """
    path: str = scope["path"]
    if path.startswith("/debug/"):
        return ONLY
    if path == STREAM:
        ids = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("run", [])
        run_id = ids[0] if len(ids) == 1 else ""
    else:
        run_id, _, rest = path.removeprefix(_RUNS).partition("/")
        if not path.startswith(_RUNS) or rest.partition("/")[0] not in ("debug", "commands"):
            return None
    return run_id if is_run_id(run_id) else None


class Forward:
    """ASGI middleware in front of the routes that show stored runs.

    Args:
        app: answers every request that is not forwarded.
        catalog: maps the id of a run to its directory, by listing.
        closing: set when the server closes.
    """

    def __init__(self, app: ASGIApp, *, catalog: RootCatalog, closing: asyncio.Event) -> None:
        self.app, self._catalog, self._closing = app, catalog, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward to the run if it is live and has a socket, else call the routes."""
        run_id = forwarded_run(scope) if scope["type"] == "http" else None
        target = None if run_id is None else await asyncio.to_thread(self._find_socket, run_id)
        if target is None:
            await self.app(scope, receive, send)
            return
        if await _is_silent(target):
            if not _facts_can_answer(scope):
                raise await _not_responding(target)
            await self.app(scope, receive, send)
            return
        body = await _read_body(scope, receive)
        try:
            async with self._connect(target, scope, receive) as exchange:
                head = await exchange.request(body)
                if head is not None:
                    await exchange.pass_on(head, send)
        except _NotBegun:  # the run ended in between, so its facts answer
            message = {"type": "http.request", "body": body, "more_body": False}
            await self.app(scope, replay(message, receive), send)

    def _find_socket(self, run_id: str) -> LiveSocket | None:
        if run_id == ONLY:
            live = self._catalog.live()
            run_dir = live[0] if len(live) == 1 else None
        else:
            run_dir = self._catalog.directory(run_id)
        return None if run_dir is None else find_live_socket(run_dir)

    @asynccontextmanager
    async def _connect(
        self, target: LiveSocket, scope: Scope, receive: Receive
    ) -> AsyncIterator[_Exchange]:
        try:
            upstream = await UnixHttpRequest.open(target.socket)
        except UpstreamGone as error:
            raise _NotBegun from error
        gone = asyncio.create_task(until_gone(receive))
        closing = asyncio.create_task(self._closing.wait())
        try:
            yield _Exchange(
                target=target, upstream=upstream, scope=scope, gone=gone, closing=closing
            )
        finally:
            for task in (gone, closing):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            upstream.close()


class _NotBegun(Exception):  # noqa: N818 - the request is then answered from facts
    """The run could not be reached, and nothing of a response was sent yet."""


@dataclass(frozen=True, kw_only=True)
class _Exchange:
    """One request to a run and its response."""

    target: LiveSocket
    upstream: UnixHttpRequest
    scope: Scope
    gone: asyncio.Task[None]
    """Ends when the caller disconnects."""
    closing: asyncio.Task[Any]
    """Ends when the server closes."""

    async def request(self, body: bytes) -> Head | None:
        """Send the request and return the start of the response; None if the caller is gone."""
        head = asyncio.create_task(self._send_request(body))
        until = time.monotonic() + LONGEST_S
        try:
            while not await self._is_done(head):
                if self._has_no_reader:
                    return None
                if await _is_silent(self.target) or time.monotonic() > until:
                    if _facts_can_answer(self.scope):
                        raise _NotBegun
                    raise await _not_responding(self.target, sent=self.scope["method"] in WRITES)
            return _check_token_accepted(await head)
        except UpstreamGone as error:
            raise _NotBegun from error
        finally:
            head.cancel()

    @property
    def _has_no_reader(self) -> bool:
        return self.gone.done() or self.closing.done()

    async def _is_done(self, task: asyncio.Future[Any]) -> bool:
        """Wait for `task`, the caller or the server, at most until the next heartbeat check."""
        await asyncio.wait(
            {task, self.gone, self.closing},
            timeout=CHECK_EVERY_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        return task.done()

    async def _send_request(self, body: bytes) -> Head:
        scope = self.scope
        # Read again for each request: `midstep serve --new-token` may have replaced the tokens.
        tokens = await asyncio.to_thread(Tokens.for_root, self.target.run_dir.parent)
        secret = b"Bearer " + tokens.token(scope["state"]["midstep_role"]).encode()
        query = scope.get("query_string", b"")
        target = scope.get("raw_path") or scope["path"].encode()
        headers = [pair for pair in scope["headers"] if pair[0].lower() in _REQUEST_HEADERS]
        await self.upstream.send(
            scope["method"],
            target + (b"?" + query if query else b""),
            [(b"host", b"localhost"), (b"authorization", secret), *headers],
            body,
        )
        return await self.upstream.head()

    async def pass_on(self, head: Head, send: Send) -> None:
        """Send the response to the caller, piece by piece.

        The stream of a silent run ends, so that its viewer reconnects and is served from facts.
        """
        out = SseWriter(self.scope, send, stuck_s=STUCK_S)
        headers = [pair for pair in head.headers if pair[0].lower() in _RESPONSE_HEADERS]
        await out.start(head.status, headers)
        is_stream = self.scope["path"] == STREAM and head.status == 200
        is_complete = False
        try:
            async for piece in self._pieces(ends_when_silent=is_stream):
                await out.body(piece)
            is_complete = True
        except UpstreamGone:
            # A stream may end anywhere: its reader continues after the last event id. Any other
            # response would be cut off, which the caller must notice.
            is_complete = is_stream
        except TimeoutError:
            log.warning("a viewer read nothing for %.0f s and was disconnected", STUCK_S)
        if is_complete and not self.gone.done():
            with suppress(TimeoutError):
                await out.end()
                return
        out.abort()

    async def _pieces(self, *, ends_when_silent: bool) -> AsyncIterator[bytes]:
        pieces = self.upstream.pieces()
        while True:
            coming = asyncio.ensure_future(anext(pieces, None))
            try:
                while not await self._is_done(coming):
                    if self._has_no_reader or (ends_when_silent and await _is_silent(self.target)):
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


def _check_token_accepted(head: Head) -> Head:
    """A refused token here is this server's token; the guard accepted the one of the caller."""
    if head.status in (401, 429):
        raise Refusal(
            502,
            "other_token",
            "The run does not accept this server's token: it was started with another "
            "XDG_STATE_HOME. Start midstep serve with the same one.",
        )
    return head


async def _is_silent(target: LiveSocket) -> bool:
    """Whether the heartbeat of the process has stopped: it is stopped, swapped out, or stuck."""
    age_s = await asyncio.to_thread(heartbeat_age_s, target.run_dir)
    return age_s is not None and age_s > SILENT_S


def _facts_can_answer(scope: Scope) -> bool:
    """Whether the facts of a silent run can answer: only for its stream and its state."""
    path: str = scope["path"]
    return path == STREAM or path.endswith("/debug/state")


async def _not_responding(target: LiveSocket, *, sent: bool = False) -> Refusal:
    age_s = await asyncio.to_thread(heartbeat_age_s, target.run_dir)
    since = "" if age_s is None else f": no heartbeat for {age_s:.0f} s"
    later = " It may still execute the request when it continues." if sent else ""
    return Refusal(
        504,
        "not_responding",
        f"The run's process ({target.pid}) does not respond{since}. It may be stopped, out of "
        f"memory, or stuck in a call that never returns.{later}",
    )


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """The body of a write. The guard has read it whole and checked it, so it is one message."""
    if scope["method"] not in WRITES:
        return b""
    body: bytes = (await receive()).get("body", b"")
    return body
