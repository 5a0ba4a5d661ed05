"""The two append files of one writer, and the sequence number that counts their records.

One thread at a time may write. Every record is written whole and counted, or neither, also if a
signal raises in the middle: Ctrl+C may come between any two instructions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from midstep.core.files.storage import AppendFile
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import EventHeader, encode_line
from midstep.facts.format.paths import events_path, steps_path
from midstep.facts.format.step_frames import (
    MAXIMUM_NAMES,
    SEAL_EVERY_BYTES,
    FileHeader,
    Layout,
    file_header,
    layout_frame,
    seal_frame,
)

MOST_BYTES = 8 << 20
"""Size of a follower's queue. Further records are left out; the follower reads them from disk."""
MAXIMUM_LAYOUTS = 4096
"""Layouts kept in memory. Beyond that all are forgotten, and defined again under new ids."""
LONGEST_NAME = 1024


class WrittenRecord(NamedTuple):
    """One record as it was written."""

    seq: int
    layout: Layout | None
    """The layout of a row; None for an event."""
    data: bytes
    """The frame of a row, or the line of an event with its newline."""


class FollowerQueue:
    """Records for one follower, in the order they were written.

    >>> queue = FollowerQueue()
    >>> queue.put(WrittenRecord(1, None, b"{}"))
    >>> [record.seq for record in queue.take()], queue.take()
    ([1], [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[WrittenRecord] = []
        self.waiting_bytes = 0
        """Size of the queued records."""

    def put(self, record: WrittenRecord) -> None:
        """Append a record, unless the queue is full."""
        with self._lock:
            if self.waiting_bytes < MOST_BYTES:
                self._records.append(record)
                self.waiting_bytes += len(record.data)

    def take(self) -> list[WrittenRecord]:
        """Empty the queue and return its records."""
        with self._lock:
            records, self._records, self.waiting_bytes = self._records, [], 0
        return records


class RecordFiles:
    """Appends rows and events under consecutive numbers; keeps files, layouts and followers."""

    def __init__(self, run_dir: Path, header: FileHeader, *, last_seq: int, layouts: int) -> None:
        self.header = header
        self.seq = last_seq
        """The number of the last record in the files."""
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._next_layout = layouts + 1
        # A tuple that is replaced, never changed: the hot path reads it without a lock.
        self._followers: tuple[FollowerQueue, ...] = ()
        self._followers_lock = threading.Lock()
        self.events = AppendFile(events_path(run_dir, header.rank, header.attempt))
        try:
            # Each attempt has its own steps file, so the header names run, attempt and rank once.
            self.steps = AppendFile(steps_path(run_dir, header.rank, header.attempt))
            if self.steps.size == 0:
                self.steps.append(file_header(header))
        except BaseException:
            self.events.close()
            raise
        # The first seal covers only what is appended from here on.
        self._block_start, self._block_crc = self.steps.size, 0

    def write_row(
        self,
        step: int,
        timeline: int,
        wall: float,
        mono: float,
        names: tuple[str, ...],
        values: Collection[float],
    ) -> None:
        """Append one row. A new layout is written before it, in the same write.

        Raises `TypeError`, `OverflowError` or `struct.error` if a name or a value is invalid.
        """
        steps = self.steps
        # Everything that the `except` below restores is read before the first change.
        before, block_start, block_crc = steps.size, self._block_start, self._block_crc
        seq = self.seq + 1
        try:
            layout = self._layouts.get(names)
            if layout is None:
                layout = Layout(self._next_layout, _check_names(names))
                row = layout.row(timeline, seq, step, wall, mono, values)
                data = layout_frame(layout) + row
            else:
                row = data = layout.row(timeline, seq, step, wall, mono, values)
            crc = crc32(data, block_crc)  # of the whole block since the last seal, continued
            if before + len(data) - block_start < SEAL_EVERY_BYTES:
                steps.append(data)
                self._block_crc = crc
            else:
                steps.append(data + seal_frame(crc, block_start, seq))
                self._block_start, self._block_crc = steps.size, 0
            if layout.identity == self._next_layout:
                self._remember(layout)
            self.seq = seq  # last: from here on the row counts as written
        except BaseException:
            # The layout is dropped too: its definition may be in the part that is removed.
            self._layouts.pop(names, None)
            steps.take_back(before)
            self._block_start, self._block_crc = block_start, block_crc
            raise
        # A Ctrl+C in here leaves a gap in a queue; its reader then continues from the disk.
        for follower in self._followers:
            follower.put(WrittenRecord(seq, layout, row))

    def _remember(self, layout: Layout) -> None:
        """Keep a layout, once its definition is in the file.

        Forgotten names get a new id: within a file the format allows one meaning for each id.
        """
        if len(self._layouts) >= MAXIMUM_LAYOUTS:
            self._layouts.clear()
        self._next_layout += 1
        self._layouts[layout.names] = layout

    def head(self, moment: Moment, timeline: int) -> EventHeader:
        """The fixed fields of an event that happens now."""
        attempt, rank, run_id = self.header.attempt, self.header.rank, self.header.run_id
        return EventHeader(
            attempt, rank, time.time(), time.monotonic(), str(moment), run_id, timeline
        )

    def write_line(self, head: EventHeader, fields_text: str) -> None:
        """Append one event."""
        before, seq = self.events.size, self.seq + 1
        try:
            line = encode_line(seq, head, fields_text)
            self.events.append(line)
            self.seq = seq
        except BaseException:
            self.events.take_back(before)
            raise
        for follower in self._followers:
            follower.put(WrittenRecord(seq, None, line))

    def subscribe(self) -> FollowerQueue:
        """A queue that gets every record from now on, once it is counted."""
        queue = FollowerQueue()
        with self._followers_lock:
            self._followers = (*self._followers, queue)
        return queue

    def unsubscribe(self, queue: FollowerQueue) -> None:
        """Put no more records into this queue. Idempotent."""
        with self._followers_lock:
            self._followers = tuple(each for each in self._followers if each is not queue)

    def files_unchanged(self) -> bool:
        """Whether both paths still lead to the opened files."""
        return self.events.in_place() and self.steps.in_place()

    def sync_steps(self) -> None:
        """Sync the rows to the disk."""
        if self.steps.unsynced:
            self.steps.sync()

    def sync(self) -> None:
        """Sync the rows, then the events: an event must not outlive the rows before it."""
        self.sync_steps()
        if self.events.unsynced:
            self.events.sync()

    def abandon(self) -> None:
        """Close the descriptors of a forked child."""
        self.steps.abandon()
        self.events.abandon()

    def close(self) -> None:
        """Close both files."""
        try:
            self.steps.close()
        finally:
            self.events.close()


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if a layout may have them; else `TypeError` or `UnicodeError`."""
    if len(names) > MAXIMUM_NAMES:
        raise TypeError(f"{len(names)} names in one row; the most is {MAXIMUM_NAMES}")
    for name in names:
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise TypeError(f"a name must be text of at most {LONGEST_NAME} characters")
        name.encode()  # raises for a lone surrogate
    return names
