"""Server-sent events of one viewer, over plain ASGI."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from midstep.core.version import __version__
from midstep.server.stream.run_stream import RunStream
from midstep.server.stream.stream_frames import Frame, FrameReader, volatile_frame
from midstep.server.stream.viewer_queue import ViewerQueue

EVENT_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class SseWriter:
    """The way to one viewer.

    Args:
        scope: of its request.
        send: of its request.
        stuck_s: how long one piece may take; then `TimeoutError` is raised.
    """

    def __init__(self, scope: Scope, send: Send, *, stuck_s: float) -> None:
        self._send, self._stuck_s = send, stuck_s
        self.abort = _abort_of(scope)
        """Cuts the connection without waiting for a peer that does not read."""

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes) -> None:
        """One piece; more will come."""
        message = {"type": "http.response.body", "body": data, "more_body": True}
        async with asyncio.timeout(self._stuck_s):  # wait_for would make a task of each piece
            await self._send(message)

    async def end(self) -> None:
        """Nothing more will come."""
        message = {"type": "http.response.body", "body": b"", "more_body": False}
        async with asyncio.timeout(self._stuck_s):
            await self._send(message)


async def until_gone(receive: Receive) -> None:
    """Return once whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort_of(scope: Scope) -> Callable[[], None]:
    """How to cut the connection; without our server's protocol there is none to cut."""
    found: Any = scope.get("state", {}).get("midstep_abort")
    return found if callable(found) else lambda: None


log = logging.getLogger("midstep.server")
STUCK_S = 10.0
"""A viewer that takes nothing for this long is cut off; it may come back with its last id."""
CATCH_UP_S = 0.05


class SseResponse(Response):
    """The answer of `GET /api/v1/stream`: a hello, then frames until the viewer goes."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: RunStream,
        *,
        last_event_id: str | None,
        can_control: bool,
        status_code: int = 200,  # FastAPI reads the default of this from the signature
    ) -> None:
        super().__init__(status_code=status_code, headers=EVENT_HEADERS)
        del self.headers["content-length"]
        self._hub, self._last_event_id, self._can_control = hub, last_event_id, can_control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the viewer or the server goes."""
        hub = self._hub
        with hub.entry.viewer():
            queue, resumed = hub.join(self._last_event_id)
            gone = asyncio.create_task(_until_gone(receive, queue))
            try:
                out = SseWriter(scope, send, stuck_s=STUCK_S)
                await out.start(self.status_code, self.raw_headers)
                await out.body(await asyncio.to_thread(self._hello, queue, resumed))
                await _pump(hub, queue, out)
                await out.end()
            except TimeoutError:
                log.warning("a viewer took nothing for %.0f s and was cut off", STUCK_S)
                out.abort()
            finally:
                gone.cancel()
                hub.leave(queue)
                with suppress(asyncio.CancelledError):
                    await gone

    def _hello(self, queue: ViewerQueue, resumed: bool) -> bytes:
        entry = self._hub.entry
        message = {
            "type": "hello",
            "run": entry.id,
            "timeline": entry.timeline,
            "seq": queue.cursor,
            "resumed": resumed,
            "state": entry.state(),
            "breakpoints": [each.describe() for each in entry.breakpoints()],
            "version": __version__,
            "can_control": self._can_control,
        }
        return volatile_frame("hello", message).data


async def _until_gone(receive: Receive, queue: ViewerQueue) -> None:
    await until_gone(receive)
    queue.close()


async def _pump(hub: RunStream, queue: ViewerQueue, out: SseWriter) -> None:
    """Memory first, then disk for a viewer that is behind, in one order of sequence numbers."""
    disk: FrameReader | None = None
    while not queue.closed:
        data = queue.take()
        if data:
            await out.body(data)
        elif not queue.reads_from_disk:
            disk = None
            await queue.wait()
        else:
            disk = disk or hub.reader_behind(queue.cursor)
            await _catch_up(hub, queue, out, await asyncio.to_thread(disk.read))


async def _catch_up(
    hub: RunStream, queue: ViewerQueue, out: SseWriter, frames: list[Frame]
) -> None:
    for frame in frames:
        await out.body(frame.data)
        queue.cursor = frame.last_seq
        if queue.closed:
            return
    # No await between the test and the flag: what the hub tells next is queued from memory.
    if queue.cursor >= hub.seq:
        queue.reads_from_disk = False
    elif not frames:
        await asyncio.sleep(CATCH_UP_S)
