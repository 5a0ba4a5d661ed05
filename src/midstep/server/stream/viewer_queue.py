"""What waits for one viewer: bounded, in order, newest wins for what is volatile."""

from __future__ import annotations

import asyncio
from collections import deque

from midstep.server.stream.stream_frames import Frame

MAX_BYTES = 640 * 1024
"""With the socket's own buffer and one frame in flight this stays below 1 MiB a viewer."""


class ViewerQueue:
    """Frames for one viewer. Lives on the server's loop; no locks.

    A viewer too slow for its durable frames falls *behind*: it gets no more of them from
    memory, and reads on from disk when its queue is empty.

    Args:
        cursor: durable frames up to this sequence number are not wanted.
        behind: begin by reading from disk.
    """

    def __init__(self, *, cursor: int, behind: bool) -> None:
        self.cursor, self.reads_from_disk = cursor, behind
        self.dropped = 0
        """Frames that were replaced or skipped because the viewer was slow."""
        self.closed = False
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait in memory."""
        return self._bytes

    def offer(self, frame: Frame) -> None:
        """Queue a frame, cut to what is new for this viewer."""
        if frame.key is not None:
            self._offer_volatile(frame)
        elif not self.reads_from_disk:
            for part in frame.behind(self.cursor):
                self._offer_durable(part)

    def _offer_durable(self, frame: Frame) -> None:
        if self.reads_from_disk or self._bytes + len(frame.data) > MAX_BYTES:
            self.reads_from_disk = True
            self.dropped += 1
            self._ready.set()
            return
        self.cursor = frame.last_seq
        self._append(frame)

    def _offer_volatile(self, frame: Frame) -> None:
        older = next((held for held in self._frames if held.key == frame.key), None)
        if older is not None:
            self._frames.remove(older)
            self._bytes -= len(older.data)
            self.dropped += frame.key != "ping"
        if self._bytes + len(frame.data) > MAX_BYTES:
            self.dropped += 1
            return
        self._append(frame)

    def _append(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._bytes += len(frame.data)
        self._ready.set()

    def close(self) -> None:
        """End the stream of this viewer."""
        self.closed = True
        self._ready.set()

    async def wait(self) -> None:
        """Until there is something to send, to read from disk, or to end."""
        if not (self._frames or self.reads_from_disk or self.closed):
            self._ready.clear()
            await self._ready.wait()

    def take(self) -> bytes:
        """Everything that waits, in order."""
        data = b"".join(frame.data for frame in self._frames)
        self._frames.clear()
        self._bytes = 0
        return data
