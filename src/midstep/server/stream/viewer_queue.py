"""Frames that wait for one viewer: bounded and in order; of volatile ones only the newest."""

from __future__ import annotations

import asyncio
from collections import deque

from midstep.server.stream.stream_frames import Frame

MAX_BYTES = 640 * 1024
"""With the buffer of the socket and one frame being sent, a viewer takes less than 1 MiB."""


class ViewerQueue:
    """Frames for one viewer. Used on the server's event loop only, so it needs no lock.

    When the queue of a slow viewer is full, no more durable frames are added from memory. Once it
    is empty, the viewer reads the missing facts from disk: none is lost, and memory stays bounded.

    Args:
        cursor: durable frames up to this sequence number are skipped.
        reads_from_disk: start with the facts on disk.
        stream: id of the stream, under which it subscribes to captures.
    """

    def __init__(self, *, cursor: int, reads_from_disk: bool, stream: str = "") -> None:
        self.cursor, self.reads_from_disk, self.stream = cursor, reads_from_disk, stream
        self.sent_captures: dict[str, str] = {}
        """The etag of the newest capture message by id of the subscription."""
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
        """Queue a frame, without the part that this viewer already has."""
        if frame.key is not None:
            self._offer_volatile(frame)
        elif not self.reads_from_disk:
            for part in frame.after(self.cursor):
                self._offer_durable(part)

    def _offer_durable(self, frame: Frame) -> None:
        # After the first part that does not fit, the following ones must not be queued either:
        # the viewer would get them before the missing part.
        if self.reads_from_disk or self._bytes + len(frame.data) > MAX_BYTES:
            self.reads_from_disk = True
            self.dropped += 1
            self._ready.set()
            return
        self.cursor = frame.last_seq
        self._append(frame)

    def _offer_volatile(self, frame: Frame) -> None:
        older = next((queued for queued in self._frames if queued.key == frame.key), None)
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
        """Wait until there is a frame to send, facts to read from disk, or the end."""
        if not (self._frames or self.reads_from_disk or self.closed):
            self._ready.clear()
            await self._ready.wait()

    def take(self) -> bytes:
        """Remove and return everything that waits, in order."""
        data = b"".join(frame.data for frame in self._frames)
        self._frames.clear()
        self._bytes = 0
        return data
