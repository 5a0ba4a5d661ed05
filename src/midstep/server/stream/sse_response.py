"""Server-sent events to one viewer, over plain ASGI."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from midstep.core.version import __version__
from midstep.server.stream.run_stream import RunStream
from midstep.server.stream.stream_frames import Frame, FrameReader, event_bytes
from midstep.server.stream.viewer_queue import ViewerQueue

log = logging.getLogger("midstep.server")
STUCK_S = 10.0
"""A viewer that reads nothing for this long is disconnected; else its queue would hold memory
forever. It may reconnect with its last event id."""
CATCH_UP_S = 0.05
"""Pause between two reads of the disk when the newest facts are not written yet."""


class SseWriter:
    """Sends a response piece by piece to one viewer.

    Args:
        scope: the ASGI scope of its request.
        send: the ASGI `send` of its request.
        stuck_s: a piece that takes longer raises `TimeoutError`.
    """

    def __init__(self, scope: Scope, send: Send, *, stuck_s: float) -> None:
        self._send, self._stuck_s = send, stuck_s
        self.abort = _find_abort(scope)
        """Closes the connection at once. A normal close waits for a peer that does not read."""

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes, *, more: bool = True) -> None:
        """Send one piece; `more` tells whether another one follows."""
        message = {"type": "http.response.body", "body": data, "more_body": more}
        async with asyncio.timeout(self._stuck_s):  # `wait_for` would create a task per piece
            await self._send(message)

    async def end(self) -> None:
        """Send the end of the response."""
        await self.body(b"", more=False)


async def until_gone(receive: Receive) -> None:
    """Return once the caller has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)  # also a `receive` that never waits must not block the event loop


def _find_abort(scope: Scope) -> Callable[[], None]:
    """The `abort` that `h11_limits` puts into the scope; nothing under another ASGI server."""
    abort: Any = scope.get("state", {}).get("midstep_abort")
    return abort if callable(abort) else lambda: None


class Closable(Protocol):
    """What is waiting for one viewer."""

    def close(self) -> None:
        """End the stream of this viewer."""


class SseResponse(Response):
    """A response of server-sent events that ends when the viewer or the server closes."""

    media_type = "text/event-stream"

    # FastAPI reads the default of `status_code` from this signature.
    def __init__(self, *, status_code: int = 200) -> None:
        # x-accel-buffering: nginx would hold events back until its buffer is full.
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(status_code=status_code, headers=headers)
        del self.headers["content-length"]

    async def _serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        viewer: Closable,
        pump: Callable[[SseWriter], Awaitable[None]],
    ) -> None:
        """Send what `pump` writes. A viewer that disconnects is closed, which ends `pump`."""
        out = SseWriter(scope, send, stuck_s=STUCK_S)
        gone = asyncio.create_task(_close_when_gone(receive, viewer))
        try:
            await out.start(self.status_code, self.raw_headers)
            await pump(out)
            await out.end()
        except TimeoutError:
            log.warning("a viewer read nothing for %.0f s and was disconnected", STUCK_S)
            out.abort()
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


async def _close_when_gone(receive: Receive, viewer: Closable) -> None:
    await until_gone(receive)
    viewer.close()


class RunStreamResponse(SseResponse):
    """The response of `GET /api/v1/stream` for one run: a hello, then frames.

    Args:
        stream: the stream of the run.
        last_event_id: the id of the last durable message that the viewer got.
        can_control: whether its token controls the run.
    """

    def __init__(
        self,
        stream: RunStream,
        *,
        last_event_id: str | None,
        can_control: bool,
        status_code: int = 200,
    ) -> None:
        super().__init__(status_code=status_code)
        self._stream, self._last_event_id, self._can_control = stream, last_event_id, can_control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one viewer until it or the server closes."""
        with self._stream.run.viewer() as viewer:
            stream = secrets.token_urlsafe(16) if viewer is None else viewer.id
            queue, resumed = self._stream.join(self._last_event_id, stream)
            # The cursor of this moment: frames that are queued from now on come after the hello.
            hello = partial(self._hello, queue.cursor, resumed, stream)
            try:
                pump = partial(self._pump, queue, hello)
                await self._serve(scope, receive, send, queue, pump)
            finally:
                self._stream.leave(queue)

    def _hello(self, seq: int, resumed: bool, stream: str) -> bytes:
        run = self._stream.run
        timeline = run.timeline
        message = {
            "type": "hello",
            "run": run.id,
            "timeline": timeline,
            "seq": seq,
            "resumed": resumed,
            "state": run.state(),
            "breakpoints": [each.describe() for each in run.breakpoints()],
            "version": __version__,
            "can_control": self._can_control,
            "stream": stream,
            "captures": run.is_live and run.subscriptions() is not None,
        }
        # With an id: a viewer that is cut off before the first record continues from here, too.
        return event_bytes(message, identity=f"{timeline}.{seq}")

    async def _pump(self, queue: ViewerQueue, hello: Callable[[], bytes], out: SseWriter) -> None:
        """Send from memory, and from disk for a slow viewer, in the order of sequence numbers."""
        await out.body(await asyncio.to_thread(hello))
        disk: FrameReader | None = None
        while not queue.closed:
            data = queue.take()
            if data:
                await out.body(data)
            elif not queue.reads_from_disk:
                disk = None
                await queue.wait()
            else:
                disk = disk or FrameReader(self._stream.run.dir, after_seq=queue.cursor)
                await self._catch_up(queue, out, await asyncio.to_thread(disk.read))

    async def _catch_up(self, queue: ViewerQueue, out: SseWriter, frames: list[Frame]) -> None:
        for frame in frames:
            await out.body(frame.data)
            queue.cursor = frame.last_seq
            if queue.closed:
                return
        # No await between the comparison and the flag: a frame sent in between would reach the
        # viewer neither from memory nor from disk.
        if queue.cursor >= self._stream.seq:
            queue.reads_from_disk = False
        elif not frames:
            await asyncio.sleep(CATCH_UP_S)
