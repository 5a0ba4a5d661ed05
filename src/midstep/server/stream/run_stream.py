"""One hub per run: it looks at the run while somebody views, and tells all viewers the same."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from midstep.core.errors import MidstepError
from midstep.server.debug.command_schemas import command_json
from midstep.server.runs.run_view import RunView
from midstep.server.stream.stream_frames import (
    Frame,
    FrameReader,
    durable_frames,
    state_frame,
    volatile_frame,
)
from midstep.server.stream.viewer_queue import ViewerQueue

if TYPE_CHECKING:
    from midstep.facts import FactsTail, LiveTail


class FrameBudget:
    """A bucket of frames: a click is answered at once, a fast loop is coalesced.

    >>> budget = FrameBudget(per_s=10, burst=1, clock=lambda: 0.0)
    >>> budget.spend()
    >>> budget.wait_s()
    0.1

    Args:
        per_s: frames a second in the long run.
        burst: frames that may follow each other at once.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, per_s: float = 10.0, burst: int = 10, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left, self._at = float(burst), clock()

    def spend(self) -> None:
        """A frame was sent."""
        self._refill()
        self._left -= 1.0

    def wait_s(self) -> float:
        """Seconds until the next one may be sent."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._per_s)

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) * self._per_s)
        self._at = now


log = logging.getLogger("midstep.server")
POLL_S = 0.1
PING_S = 1.0
REPLAY_AT_MOST = 200_000
"""Records that a returning viewer is sent from disk; further back it starts afresh."""
COMMANDS_LOOKED_AT = 200
MOST_IDLE = 8


class RunStream:
    """Tells the viewers of one run what happens.

    Everything is on the server's loop, but for a look that may take long: each change of threads
    beside a training hands the interpreter over and back.
    """

    def __init__(self, entry: RunView) -> None:
        self.entry = entry
        self.seq = 0
        """Durable frames up to this number have been told."""
        self.viewers: set[ViewerQueue] = set()
        self._tail: FactsTail | LiveTail | None = None
        self._reading = threading.Lock()
        """A look goes on in its thread when its task is cancelled: files are let go behind it."""
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._news = True
        self._told: dict[str, Any] = {}
        self._complained = False
        self._closed = False

    @property
    def is_looking(self) -> bool:
        """Whether the run is being looked at; only while somebody views."""
        return self._task is not None and not self._task.done()

    def join(self, last_event_id: str | None) -> tuple[ViewerQueue, bool]:
        """A new viewer, and whether it goes on behind the id it gave."""
        if not self.is_looking:
            self._begin()
        wanted = self._resumable(last_event_id)
        cursor = self.seq if wanted is None else wanted
        queue = ViewerQueue(cursor=cursor, behind=cursor < self.seq)
        self.viewers.add(queue)
        if self._closed:
            queue.close()
        return queue, wanted is not None

    def close(self) -> None:
        """End the streams of all viewers, and of those that come."""
        self._closed = True
        self._end_all()

    def _end_all(self) -> None:
        """Viewers come back with their last id."""
        for queue in tuple(self.viewers):
            queue.close()

    def leave(self, queue: ViewerQueue) -> None:
        """A viewer has gone; with the last one the hub stops looking."""
        self.viewers.discard(queue)
        self._wake.set()

    def _resumable(self, last_event_id: str | None) -> int | None:
        """The sequence number to go on behind; None when it is unknown or too far back."""
        timeline, _, seq = (last_event_id or "").partition(".")
        if not (timeline.isdecimal() and seq.isdecimal() and len(seq) < 19 and len(timeline) < 10):
            return None
        known = int(seq) <= self.seq and int(timeline) <= self.entry.timeline
        return int(seq) if known and self.seq - int(seq) <= REPLAY_AT_MOST else None

    def _begin(self) -> None:
        from midstep.facts import FactsTail, LiveTail, open_writer

        writer = open_writer(self.entry.dir)
        if writer is None:
            self._tail = FactsTail(self.entry.dir, after_seq=self.entry.seq, held=True)
        else:
            self._tail = LiveTail(writer)
        self.seq = self._tail.last_seq
        # From here on, not from the first look on: a command may end in between.
        self._told, self._news = {"commands": self._command_states()}, True
        self._wake.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def reader_behind(self, seq: int) -> FrameReader:
        """How a viewer reads on from disk by itself."""
        return FrameReader(self.entry.dir, after_seq=seq)

    async def _run(self) -> None:
        loop, last_sent, budget = asyncio.get_running_loop(), time.monotonic(), FrameBudget()
        thread = ThreadPoolExecutor(1, thread_name_prefix="midstep-stream")
        unsubscribe = self.entry.subscribe(partial(self._nudge, loop))
        try:
            while self.viewers:
                await self._until_due(loop, budget)
                light = self._tail is not None and self._tail.is_cheap
                frames = self._look() if light else await loop.run_in_executor(thread, self._look)
                if frames:
                    budget.spend()
                elif time.monotonic() - last_sent >= PING_S:
                    frames = [volatile_frame("ping", {"type": "ping", "at": time.time()})]
                if frames:
                    last_sent = time.monotonic()
                    self._tell(frames)
                if self.entry.has_moved:
                    self._end_all()
        except Exception:
            log.exception("the stream of run %s broke; its viewers start again", self.entry.id)
            self._end_all()
        finally:
            unsubscribe()
            thread.shutdown(wait=False)
            self._let_go()

    async def _until_due(self, loop: asyncio.AbstractEventLoop, budget: FrameBudget) -> None:
        """Until something changes or it is time, within the budget of frames."""
        timer = loop.call_later(POLL_S, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        if (wait_s := budget.wait_s()) > 0:
            await asyncio.sleep(wait_s)
        self._wake.clear()

    def _let_go(self) -> None:
        with self._reading:
            tail, self._tail = self._tail, None
            if tail is not None:
                tail.close()

    def _nudge(self, loop: asyncio.AbstractEventLoop) -> None:
        """From any thread, at once: something changed."""
        if not self._news:  # else a look is due already, and sees this too
            self._news = True
            with suppress(RuntimeError):  # the loop has just closed
                loop.call_soon_threadsafe(self._wake.set)

    def _tell(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.key is None:
                self.seq = max(self.seq, frame.last_seq)
            for queue in tuple(self.viewers):
                queue.offer(self._own(frame, queue))

    def _own(self, frame: Frame, queue: ViewerQueue) -> Frame:
        """The state says how much this viewer missed; for most that is nothing."""
        if frame.key != "state" or queue.dropped == 0:
            return frame
        return state_frame(self._told["state_now"], queue.dropped)

    # -- on the loop, or in a thread where it may take long ---------------------------------------

    def _look(self) -> list[Frame]:
        """What is new. The state is read first, so that facts are never older than it."""
        news = self._news
        if news:  # taken back before looking, and never unread: a nudge in between is not lost
            self._news = False
        state = self.entry.state()
        told = [*self._new_commands(), *self._new_breakpoints()] if news else []
        told.extend(self._new_state(state))
        return [*self._new_facts(), *told]

    def _new_facts(self) -> list[Frame]:
        try:
            with self._reading:
                return [] if self._tail is None else list(durable_frames(self._tail.poll()))
        except (MidstepError, OSError):
            if not self._complained:
                self._complained = True
                log.exception("facts of run %s cannot be read; the stream goes on", self.entry.id)
            return []

    def _new_state(self, state: dict[str, Any]) -> list[Frame]:
        age = int(state["boundary_age_s"])
        seen = {**state, "boundary_age_s": age if age >= 2 else 0}
        self._told["state_now"] = state
        return [state_frame(state)] if self._is_news("state", seen) else []

    def _new_breakpoints(self) -> list[Frame]:
        found = [each.describe() for each in self.entry.breakpoints()]
        lasting = [{**each, "mean": None, "std": None, "cost_s": None} for each in found]
        if not self._is_news("breakpoints", lasting):
            return []
        return [volatile_frame("breakpoints", {"type": "breakpoints", "breakpoints": found})]

    def _new_commands(self) -> list[Frame]:
        seen, now = self._told["commands"], self._command_states()
        self._told["commands"] = now
        frames = []
        for command_id, status in now.items():
            record = self.entry.command(command_id)
            if seen.get(command_id) != status and record is not None:
                message = {"type": "command", "command": command_json(record)}
                frames.append(volatile_frame(f"command {command_id}", message))
        return frames

    def _command_states(self) -> dict[str, Any]:
        records = self.entry.commands(COMMANDS_LOOKED_AT)
        return {record.command.id: (record.status, record.progress) for record in records}

    def _is_news(self, key: str, value: Any) -> bool:
        """Whether `value` differs from what was told last."""
        if key in self._told and self._told[key] == value:
            return False
        self._told[key] = value
        return True


class RunStreams:
    """The hubs of an app, made when first asked for."""

    def __init__(self) -> None:
        self._hubs: dict[str, RunStream] = {}
        self.closing = asyncio.Event()
        """Set when the server goes: for streams that come from elsewhere."""

    def of(self, entry: RunView) -> RunStream:
        """The hub of a run; call it on the server's loop."""
        hub = self._hubs.get(entry.id)
        if hub is None or hub.entry is not entry:
            self._forget_idle()
            hub = self._hubs[entry.id] = RunStream(entry)
        return hub

    def _forget_idle(self) -> None:
        """A hub holds its run with all its series: of many runs only those in view are kept."""
        if len(self._hubs) >= MOST_IDLE:
            self._hubs = {key: hub for key, hub in self._hubs.items() if hub.viewers}

    def close(self) -> None:
        """End every stream; call it on the server's loop."""
        self.closing.set()
        for hub in self._hubs.values():
            hub.close()
