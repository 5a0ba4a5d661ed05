"""Server-sent events of one viewer, over plain ASGI."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from midstep.core.version import __version__
from midstep.server.disk_reader import DiskReader
from midstep.server.event_out import EVENT_HEADERS, EventOut, until_gone
from midstep.server.frames import Frame, volatile_frame
from midstep.server.stream import Hub
from midstep.server.viewer_queue import ViewerQueue

__all__ = ["EventStream"]

log = logging.getLogger("midstep.server")
STUCK_S = 10.0
"""A viewer that takes nothing for this long is cut off; it may come back with its last id."""
CATCH_UP_S = 0.05


class EventStream(Response):
    """The answer of `GET /api/v1/stream`: a hello, then frames until the viewer goes."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
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
        with hub.entry.controller.viewer():
            queue, resumed = hub.join(self._last_event_id)
            gone = asyncio.create_task(_until_gone(receive, queue))
            try:
                out = EventOut(scope, send, stuck_s=STUCK_S)
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
            "timeline": int(entry.run.facts.timeline),
            "seq": queue.cursor,
            "resumed": resumed,
            "state": entry.state(),
            "breakpoints": [each.describe() for each in entry.controller.list_breakpoints()],
            "version": __version__,
            "can_control": self._can_control,
        }
        return volatile_frame("hello", message).data


async def _until_gone(receive: Receive, queue: ViewerQueue) -> None:
    await until_gone(receive)
    queue.close()


async def _pump(hub: Hub, queue: ViewerQueue, out: EventOut) -> None:
    """Memory first, then disk for a viewer that is behind, in one order of sequence numbers."""
    disk: DiskReader | None = None
    while not queue.closed:
        data = queue.take()
        if data:
            await out.body(data)
        elif not queue.behind:
            disk = None
            await queue.wait()
        else:
            disk = disk or hub.reader_behind(queue.cursor)
            await _catch_up(hub, queue, out, await asyncio.to_thread(disk.read))


async def _catch_up(hub: Hub, queue: ViewerQueue, out: EventOut, frames: list[Frame]) -> None:
    for frame in frames:
        await out.body(frame.data)
        queue.cursor = frame.last_seq
        if queue.closed:
            return
    # No await between the test and the flag: what the hub tells next is queued from memory.
    if queue.cursor >= hub.seq:
        queue.behind = False
    elif not frames:
        await asyncio.sleep(CATCH_UP_S)
