"""The stream of the run list: which runs changed, came or went, at most twice a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from midstep.facts.index.run_query import RunQuery
from midstep.server.stream.sse_response import EVENT_HEADERS, SseWriter, until_gone
from midstep.server.stream.stream_frames import volatile_frame

if TYPE_CHECKING:
    from midstep.facts.index.run_row import RunRow
    from midstep.server.runs.run_catalog import Catalog

log = logging.getLogger("midstep.server")
LOOK_EVERY_S = 0.5
PING_S = 1.0
STUCK_S = 10.0
RECENT_S = 60.0
"""The first message has the live runs and what changed in this time; the list has the rest."""
EVERYTHING = RunQuery(limit=2**31)


class ListViewer:
    """What one viewer has not been told: ids, however often they changed."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.removed: dict[str, None] = {}
        self.ping = False
        self.closed = False
        self._ready = asyncio.Event()

    def note(self, changed: Iterable[str], removed: Iterable[str]) -> None:
        """Runs that changed, and runs that went."""
        for run_id in changed:
            self.changed[run_id] = None
            self.removed.pop(run_id, None)
        for run_id in removed:
            self.removed[run_id] = None
            self.changed.pop(run_id, None)
        self.wake()

    def wake(self) -> None:
        """There is something to send, or to end."""
        self._ready.set()

    def close(self) -> None:
        """End this viewer's stream."""
        self.closed = True
        self.wake()

    async def wait(self) -> None:
        """Until there is something to do."""
        await self._ready.wait()
        self._ready.clear()


class RunListStream:
    """Looks at the list while somebody views, and notes for each viewer what is new.

    Args:
        catalog: lists the runs.
        closing: set when the server goes.
    """

    def __init__(self, catalog: Catalog, closing: asyncio.Event) -> None:
        self._catalog, self._closing = catalog, closing
        self._rows: dict[str, RunRow] = {}
        self._states: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._viewers: set[ListViewer] = set()

    @property
    def viewers(self) -> int:
        """How many look."""
        return len(self._viewers)

    async def join(self) -> ListViewer:
        """A new viewer, to be told of live runs and of what changed lately."""
        if self._is_idle:
            rows = await asyncio.to_thread(self._look)
            if self._is_idle:  # else somebody joined meanwhile: one look at a time is enough
                self._take(rows)
                self._task = asyncio.create_task(self._run())
        viewer, since = ListViewer(), time.time() - RECENT_S
        viewer.note([row.id for row in self._rows.values() if _is_recent(row, since)], ())
        self._viewers.add(viewer)
        return viewer

    @property
    def _is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def leave(self, viewer: ListViewer) -> None:
        """A viewer has gone; with the last one the hub stops looking."""
        self._viewers.discard(viewer)

    def message(self, viewer: ListViewer) -> bytes:
        """What the viewer has not been told, as of now; a ping when that is nothing."""
        changed, removed = viewer.changed, viewer.removed
        viewer.changed, viewer.removed = {}, {}
        if not changed and not removed and viewer.ping:
            viewer.ping = False
            return volatile_frame("ping", {"type": "ping", "at": time.time()}).data
        told = {
            "type": "runs",
            "runs": [self._rows[each].as_wire() for each in changed if each in self._rows],
            "removed": list(removed),
            "states": self._states,
            "total": len(self._rows),
        }
        return volatile_frame("runs", told).data

    async def _run(self) -> None:
        last = time.monotonic()
        try:
            while self._viewers and not self._closing.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), LOOK_EVERY_S)
                changed, removed = self._take(await asyncio.to_thread(self._look))
                is_news, is_due = bool(changed or removed), time.monotonic() - last >= PING_S
                if is_news or is_due:
                    last = time.monotonic()
                for viewer in self._viewers if is_news or is_due else ():
                    viewer.ping = is_due
                    viewer.note(changed, removed)
        except Exception:
            log.exception("the stream of the list broke; its viewers start again")
        for viewer in tuple(self._viewers):
            viewer.close()

    def _look(self) -> dict[str, RunRow]:
        """The list as it is now. In a thread of the pool: it takes a look at the disk."""
        return {row.id: row for row in self._catalog.list(EVERYTHING).rows}

    def _take(self, rows: dict[str, RunRow]) -> tuple[list[str], list[str]]:
        """Ids that changed or came, and ids that went."""
        before, self._rows = self._rows, rows
        self._states = dict(Counter(row.state for row in rows.values()))
        changed = [each for each, row in rows.items() if before.get(each) != row]
        return changed, [each for each in before if each not in rows]


def _is_recent(row: RunRow, since: float) -> bool:
    return row.live or (row.updated_at or 0.0) >= since


class ListStream(Response):
    """The answer of `GET /api/v1/stream` without a run, where a server has many."""

    media_type = "text/event-stream"

    def __init__(self, hub: RunListStream, *, status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers=EVENT_HEADERS)
        del self.headers["content-length"]
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the viewer or the server goes."""
        viewer = await self._hub.join()
        out = SseWriter(scope, send, stuck_s=STUCK_S)
        gone = asyncio.create_task(_closed_when_gone(receive, viewer))
        try:
            await out.start(self.status_code, self.raw_headers)
            await self._pump(viewer, out)
            await out.end()
        except TimeoutError:
            log.warning("a viewer took nothing for %.0f s and was cut off", STUCK_S)
            out.abort()
        finally:
            self._hub.leave(viewer)
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _pump(self, viewer: ListViewer, out: SseWriter) -> None:
        await viewer.wait()
        while not viewer.closed:
            await out.body(self._hub.message(viewer))
            await viewer.wait()


async def _closed_when_gone(receive: Receive, viewer: ListViewer) -> Any:
    await until_gone(receive)
    viewer.close()
