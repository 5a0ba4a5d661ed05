"""The stream of the run list: which runs changed, were added or removed, at most twice a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from starlette.types import Receive, Scope, Send

from midstep.facts.index.run_query import RunQuery
from midstep.facts.index.run_row import RunRow
from midstep.server.runs.run_catalog import Catalog
from midstep.server.stream.sse_response import SseResponse, SseWriter
from midstep.server.stream.stream_frames import volatile_frame

log = logging.getLogger("midstep.server")
POLL_S = 0.5
PING_S = 1.0
RECENT_S = 60.0
"""The first message holds the live runs and those that changed in this time. The viewer loads the
others with `GET /api/v1/runs`, page by page."""
EVERYTHING = RunQuery(limit=2**31)


class ListViewer:
    """What one viewer has not been sent: ids only, so that a slow viewer needs little memory."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.removed: dict[str, None] = {}
        self.ping = False
        self.closed = False
        self._ready = asyncio.Event()

    def note(self, changed: Iterable[str], removed: Iterable[str]) -> None:
        """Remember runs that changed and runs that were removed, and wake the viewer."""
        for run_id in changed:
            self.changed[run_id] = None
            self.removed.pop(run_id, None)
        for run_id in removed:
            self.removed[run_id] = None
            self.changed.pop(run_id, None)
        self._ready.set()

    def close(self) -> None:
        """End this viewer's stream."""
        self.closed = True
        self._ready.set()

    async def wait(self) -> None:
        """Wait until there is something to send, or the end."""
        await self._ready.wait()
        self._ready.clear()


class RunListStream:
    """Polls the run list while viewers are connected, and notes for each viewer what is new.

    Args:
        catalog: lists the runs.
        closing: set when the server closes.
    """

    def __init__(self, catalog: Catalog, closing: asyncio.Event) -> None:
        self._catalog, self._closing = catalog, closing
        self._rows: dict[str, RunRow] = {}
        self._states: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._viewers: set[ListViewer] = set()

    @property
    def viewers(self) -> int:
        """How many viewers are connected."""
        return len(self._viewers)

    async def join(self) -> ListViewer:
        """Add a viewer; its first message holds live runs and those that changed lately."""
        if self._is_idle:
            rows = await asyncio.to_thread(self._read_rows)
            # Another viewer may have joined during the read; one task polls for all.
            if self._is_idle:
                self._update(rows)
                self._task = asyncio.create_task(self._run())
        viewer, since = ListViewer(), time.time() - RECENT_S
        recent = (
            row.id for row in self._rows.values() if row.live or (row.updated_at or 0.0) >= since
        )
        viewer.note(recent, ())
        self._viewers.add(viewer)
        return viewer

    @property
    def _is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def leave(self, viewer: ListViewer) -> None:
        """Remove a viewer. Without viewers the stream stops polling."""
        self._viewers.discard(viewer)

    def message(self, viewer: ListViewer) -> bytes:
        """The changes that the viewer has not been sent, with present values; else a ping."""
        changed, removed = viewer.changed, viewer.removed
        viewer.changed, viewer.removed = {}, {}
        if not changed and not removed and viewer.ping:
            viewer.ping = False
            return volatile_frame("ping", {"type": "ping", "at": time.time()}).data
        message = {
            "type": "runs",
            "runs": [self._rows[each].as_wire() for each in changed if each in self._rows],
            "removed": list(removed),
            "states": self._states,
            "total": len(self._rows),
        }
        return volatile_frame("runs", message).data

    async def _run(self) -> None:
        last_sent = time.monotonic()
        try:
            while self._viewers and not self._closing.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), POLL_S)
                changed, removed = self._update(await asyncio.to_thread(self._read_rows))
                is_ping_due = time.monotonic() - last_sent >= PING_S
                if not (changed or removed or is_ping_due):
                    continue
                last_sent = time.monotonic()
                for viewer in self._viewers:
                    viewer.ping = is_ping_due
                    viewer.note(changed, removed)
        except Exception:
            log.exception("the stream of the run list failed; its viewers reconnect")
        for viewer in tuple(self._viewers):
            viewer.close()

    def _read_rows(self) -> dict[str, RunRow]:
        """The list as it is now. It reads the disk, so it is called in a thread of the pool."""
        return {row.id: row for row in self._catalog.list(EVERYTHING).rows}

    def _update(self, rows: dict[str, RunRow]) -> tuple[list[str], list[str]]:
        """Take over new rows. Returns ids that changed or are new, and ids that are gone."""
        before, self._rows = self._rows, rows
        self._states = dict(Counter(row.state for row in rows.values()))
        changed = [each for each, row in rows.items() if before.get(each) != row]
        return changed, [each for each in before if each not in rows]


class ListStreamResponse(SseResponse):
    """The response of `GET /api/v1/stream` without a run, where a server has many runs."""

    def __init__(self, stream: RunListStream, *, status_code: int = 200) -> None:
        super().__init__(status_code=status_code)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one viewer until it or the server closes."""
        viewer = await self._stream.join()
        try:
            await self._serve(scope, receive, send, viewer, partial(self._pump, viewer))
        finally:
            self._stream.leave(viewer)

    async def _pump(self, viewer: ListViewer, out: SseWriter) -> None:
        await viewer.wait()
        while not viewer.closed:
            await out.body(self._stream.message(viewer))
            await viewer.wait()
