"""One stream per run: it polls the run while viewers are connected, and sends all the same."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from midstep.core.errors import MidstepError
from midstep.facts import FactsTail, LiveTail, open_writer
from midstep.server.debug.command_schemas import command_json
from midstep.server.runs.run_view import RunView
from midstep.server.stream.stream_frames import (
    Frame,
    capture_frame,
    durable_frames,
    state_frame,
    volatile_frame,
)
from midstep.server.stream.viewer_queue import ViewerQueue

log = logging.getLogger("midstep.server")
POLL_S = 0.1
"""A run on disk notifies nobody, so its files are read this often."""
PING_S = 1.0
"""A ping is sent after this long without a message, so that the page notices a lost connection."""
REPLAY_AT_MOST = 200_000
"""Records that a returning viewer gets from disk. One that missed more starts afresh: it loads the
thinned series instead."""
COMMANDS_COMPARED = 200
"""How many of the last commands are compared for a new status at each poll."""
MOST_IDLE = 8
"""Streams without viewers that are kept in memory."""


class FrameBudget:
    """A token bucket of frames: a click is answered at once, frames of a fast loop are merged.

    >>> budget = FrameBudget(per_s=10, burst=1, clock=lambda: 0.0)
    >>> budget.spend()
    >>> budget.wait_s()
    0.1

    Args:
        per_s: frames a second on average.
        burst: frames that may be sent at once after a quiet time.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, per_s: float = 10.0, burst: int = 10, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left, self._at = float(burst), clock()

    def spend(self) -> None:
        """Count a frame that was sent."""
        self._refill()
        self._left -= 1.0

    def wait_s(self) -> float:
        """Seconds until the next frame may be sent."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._per_s)

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) * self._per_s)
        self._at = now


class RunStream:
    """Sends the viewers of one run what happens.

    Everything runs on the server's event loop, except a poll that may take long: every switch of
    threads next to a training hands the GIL over and back.
    """

    def __init__(self, run: RunView) -> None:
        self.run = run
        self.seq = 0
        """Durable frames up to this sequence number have been sent."""
        self.viewers: set[ViewerQueue] = set()
        self._tail: FactsTail | LiveTail | None = None
        # A poll in the thread continues when its task is cancelled. The lock keeps the files open
        # until that poll has ended.
        self._tail_lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._has_changed = True
        self._last_sent: dict[str, Any] = {}
        self._has_logged_error = False
        self._is_closed = False

    @property
    def is_polling(self) -> bool:
        """Whether the run is polled; only while viewers are connected."""
        return self._task is not None and not self._task.done()

    def join(self, last_event_id: str | None, stream: str = "") -> tuple[ViewerQueue, bool]:
        """Add a viewer. Returns its queue, and whether it continues after `last_event_id`."""
        if not self.is_polling:
            self._start()
        resumed_seq = self._parse_event_id(last_event_id)
        cursor = self.seq if resumed_seq is None else resumed_seq
        queue = ViewerQueue(cursor=cursor, reads_from_disk=cursor < self.seq, stream=stream)
        self.viewers.add(queue)
        if self._is_closed:
            queue.close()
        return queue, resumed_seq is not None

    def close(self) -> None:
        """End the streams of all viewers, and of those that still come."""
        self._is_closed = True
        self._end_all()

    def _end_all(self) -> None:
        """End all streams; the viewers connect again with their last event id."""
        for queue in tuple(self.viewers):
            queue.close()

    def leave(self, queue: ViewerQueue) -> None:
        """Remove a viewer. Without viewers the stream stops polling."""
        self.viewers.discard(queue)
        self._wake.set()

    def _parse_event_id(self, last_event_id: str | None) -> int | None:
        """The sequence number to continue after; None when it is unknown or too old."""
        # The header comes from outside, and `int` raises for more than 4,300 digits.
        timeline, _, seq = (last_event_id or "").partition(".")
        if not (timeline.isdecimal() and seq.isdecimal() and len(seq) < 19 and len(timeline) < 10):
            return None
        is_known = int(seq) <= self.seq and int(timeline) <= self.run.timeline
        return int(seq) if is_known and self.seq - int(seq) <= REPLAY_AT_MOST else None

    def _start(self) -> None:
        writer = open_writer(self.run.dir)
        if writer is None:
            self._tail = FactsTail(self.run.dir, after_seq=self.run.seq, held=True)
        else:
            self._tail = LiveTail(writer)
        self.seq = self._tail.last_seq
        # The commands are read here, not at the first poll: one that ends in between would be
        # missing from the stream.
        self._last_sent, self._has_changed = {"commands": self._command_states()}, True
        self._wake.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop, last_sent, budget = asyncio.get_running_loop(), time.monotonic(), FrameBudget()
        thread = ThreadPoolExecutor(1, thread_name_prefix="midstep-stream")
        unsubscribe = self.run.subscribe(partial(self._notify, loop))
        try:
            while self.viewers:
                await self._wait_until_due(loop, budget)
                is_cheap = self._tail is not None and self._tail.is_cheap
                frames = (
                    self._poll() if is_cheap else await loop.run_in_executor(thread, self._poll)
                )
                if frames:
                    budget.spend()
                elif time.monotonic() - last_sent >= PING_S:
                    frames = [volatile_frame("ping", {"type": "ping", "at": time.time()})]
                if frames:
                    last_sent = time.monotonic()
                    self._send(frames)
                self._send_captures()
                if self.run.has_moved:  # its own process serves the viewers when they come back
                    self._end_all()
        except Exception:
            log.exception("the stream of run %s failed; its viewers reconnect", self.run.id)
            self._end_all()
        finally:
            unsubscribe()
            thread.shutdown(wait=False)
            with self._tail_lock:
                tail, self._tail = self._tail, None
                if tail is not None:
                    tail.close()

    async def _wait_until_due(self, loop: asyncio.AbstractEventLoop, budget: FrameBudget) -> None:
        """Wait for a change or the next poll, and then until the budget allows a frame."""
        timer = loop.call_later(POLL_S, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        if (wait_s := budget.wait_s()) > 0:
            await asyncio.sleep(wait_s)
        self._wake.clear()

    def _notify(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the stream because the run changed. Called from any thread, must return at once."""
        # The training thread calls this at every change. While a poll is due, further calls cost
        # one test and no wake-up of the loop; that poll sees their changes too.
        if not self._has_changed:
            self._has_changed = True
            with suppress(RuntimeError):  # the loop has just closed
                loop.call_soon_threadsafe(self._wake.set)

    def _send(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.key is None:
                self.seq = max(self.seq, frame.last_seq)
            for queue in tuple(self.viewers):
                queue.offer(self._frame_for(queue, frame))

    def _send_captures(self) -> None:
        """Send each viewer which of its captures are new. It reads memory only."""
        if self.run.subscriptions() is None:  # a stored run, whose timeline is read from disk
            return
        timeline = self.run.timeline
        for queue in tuple(self.viewers):
            notices = self.run.capture_notices(queue.stream) if queue.stream else []
            for notice in notices:
                if queue.sent_captures.get(notice.id) != notice.etag:
                    queue.offer(capture_frame(notice, timeline))
            # Only what is subscribed now: ids are chosen by the viewer, and may be many in time.
            queue.sent_captures = {notice.id: notice.etag for notice in notices}

    def _frame_for(self, queue: ViewerQueue, frame: Frame) -> Frame:
        """The same frame for all viewers, except that a state tells how many one has missed."""
        if frame.key != "state" or queue.dropped == 0:
            return frame
        return state_frame(self._last_sent["state_now"], queue.dropped)

    # -- on the loop, or in a thread when it may take long ----------------------------------------

    def _poll(self) -> list[Frame]:
        """Frames of what is new. The state is read first, so that no fact is older than it."""
        has_changed = self._has_changed
        # Cleared before the reads: a change that comes during them sets it again, and the next
        # poll sees it.
        if has_changed:
            self._has_changed = False
        state = self.run.state()
        frames = [*self._new_commands(), *self._new_breakpoints()] if has_changed else []
        frames.extend(self._new_state(state))
        return [*self._new_facts(), *frames]

    def _new_facts(self) -> list[Frame]:
        try:
            with self._tail_lock:
                return [] if self._tail is None else list(durable_frames(self._tail.poll()))
        except (MidstepError, OSError):
            if not self._has_logged_error:  # once: a poll comes ten times a second
                self._has_logged_error = True
                log.exception("the facts of run %s cannot be read; streaming on", self.run.id)
            return []

    def _new_state(self, state: dict[str, Any]) -> list[Frame]:
        # The age grows at every poll. Only whole seconds from 2 s on count as a change, else a
        # paused run would send ten states a second.
        age = int(state["boundary_age_s"])
        compared = {**state, "boundary_age_s": age if age >= 2 else 0}
        self._last_sent["state_now"] = state
        return [state_frame(state)] if self._is_new("state", compared) else []

    def _new_breakpoints(self) -> list[Frame]:
        described = [each.describe() for each in self.run.breakpoints()]
        # The statistics change at every step and do not make the list a new one.
        lasting = [{**each, "mean": None, "std": None, "cost_s": None} for each in described]
        if not self._is_new("breakpoints", lasting):
            return []
        return [volatile_frame("breakpoints", {"type": "breakpoints", "breakpoints": described})]

    def _new_commands(self) -> list[Frame]:
        before, now = self._last_sent["commands"], self._command_states()
        self._last_sent["commands"] = now
        frames = []
        for command_id, status in now.items():
            record = self.run.command(command_id)
            if before.get(command_id) != status and record is not None:
                message = {"type": "command", "command": command_json(record)}
                frames.append(volatile_frame(f"command {command_id}", message))
        return frames

    def _command_states(self) -> dict[str, Any]:
        records = self.run.commands(COMMANDS_COMPARED)
        return {record.command.id: (record.status, record.progress) for record in records}

    def _is_new(self, key: str, value: Any) -> bool:
        """Whether `value` differs from the one that was sent last; then it is remembered."""
        if key in self._last_sent and self._last_sent[key] == value:
            return False
        self._last_sent[key] = value
        return True


class RunStreams:
    """The streams of an app by run, each created at the first request."""

    def __init__(self) -> None:
        self._streams: dict[str, RunStream] = {}
        self.closing = asyncio.Event()
        """Set when the server closes; streams of forwarded and listed runs wait for it."""

    def stream(self, run: RunView) -> RunStream:
        """The stream of a run. Call it on the server's loop."""
        stream = self._streams.get(run.id)
        if stream is None or stream.run is not run:
            self._forget_idle()
            stream = self._streams[run.id] = RunStream(run)
        return stream

    def _forget_idle(self) -> None:
        """Drop streams without viewers: each holds its run with all its series in memory."""
        if len(self._streams) >= MOST_IDLE:
            self._streams = {
                run_id: stream for run_id, stream in self._streams.items() if stream.viewers
            }

    def close(self) -> None:
        """End every stream. Call it on the server's loop."""
        self.closing.set()
        for stream in self._streams.values():
            stream.close()
