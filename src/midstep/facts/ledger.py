"""The two files of one writer, and the one number that counts what is in them.

One thread at a time; only followers come and go from any. Every record is written whole and
counted, or neither: also when a signal raises in the middle, since the caller's Ctrl+C may come
between any two instructions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path
from zlib import crc32

from midstep.core.moments import Moment
from midstep.core.storage import AppendFile
from midstep.facts.frames import (
    MAXIMUM_NAMES,
    SEAL_EVERY_BYTES,
    FileHeader,
    Layout,
    file_header,
    layout_frame,
    seal_frame,
)
from midstep.facts.lines import Head, encode_line
from midstep.facts.places import events_path, steps_path
from midstep.facts.told import Told, ToldRecord

__all__ = ["LONGEST_NAME", "MAXIMUM_LAYOUTS", "Ledger"]

MAXIMUM_LAYOUTS = 4096
"""Layouts kept in memory; beyond it they are forgotten and defined anew, under new ids."""
LONGEST_NAME = 1024


class Ledger:
    """Appends rows and lines under consecutive numbers."""

    def __init__(self, run_dir: Path, header: FileHeader, *, last_seq: int, layouts: int) -> None:
        self.header = header
        self.seq = last_seq
        """The number of the last record in the files."""
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._next_layout = layouts + 1
        self._followers: tuple[Told, ...] = ()
        self._following = threading.Lock()
        self.events = AppendFile(events_path(run_dir, header.rank, header.attempt))
        try:
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
        """Append one row; a layout seen for the first time goes in front of it, in one write.

        Raises `TypeError`, `OverflowError` or `struct.error` when a name or a value is odd.
        """
        steps = self.steps
        before, block_start, block_crc = steps.size, self._block_start, self._block_crc
        seq = self.seq + 1
        try:
            layout = self._layouts.get(names)
            if layout is None:
                layout = Layout(self._next_layout, _checked(names))
                row = layout.row(timeline, seq, step, wall, mono, values)
                data = layout_frame(layout) + row
            else:
                row = data = layout.row(timeline, seq, step, wall, mono, values)
            crc = crc32(data, block_crc)
            if before + len(data) - block_start < SEAL_EVERY_BYTES:
                steps.append(data)
                self._block_crc = crc
            else:
                steps.append(data + seal_frame(crc, block_start, seq))
                self._block_start, self._block_crc = steps.size, 0
            if layout.identity == self._next_layout:
                self._remember(layout)
            self.seq = seq
        except BaseException:
            self._layouts.pop(names, None)
            steps.take_back(before)
            self._block_start, self._block_crc = block_start, block_crc
            raise
        for follower in self._followers:
            follower.tell(ToldRecord(seq, layout, row))

    def _remember(self, layout: Layout) -> None:
        """Only a definition that is in the file counts, hence after the write."""
        if len(self._layouts) >= MAXIMUM_LAYOUTS:
            self._layouts.clear()
        self._next_layout += 1
        self._layouts[layout.names] = layout

    def head(self, moment: Moment, timeline: int) -> Head:
        """The first fields of an event that happens now."""
        attempt, rank, run_id = self.header.attempt, self.header.rank, self.header.run_id
        return Head(attempt, rank, time.time(), time.monotonic(), str(moment), run_id, timeline)

    def write_line(self, head: Head, fields_text: str) -> None:
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
            follower.tell(ToldRecord(seq, None, line))

    def follow(self) -> Told:
        """Tell every record from now on, once it is counted."""
        told = Told()
        with self._following:
            self._followers = (*self._followers, told)
        return told

    def unfollow(self, told: Told) -> None:
        """Tell it no more; idempotent."""
        with self._following:
            self._followers = tuple(each for each in self._followers if each is not told)

    def in_place(self) -> bool:
        """Whether both files still stand where they were opened."""
        return self.events.in_place() and self.steps.in_place()

    def sync_steps(self) -> None:
        """Make the rows durable."""
        if self.steps.unsynced:
            self.steps.sync()

    def sync(self) -> None:
        """Make rows, then events durable: an event must not outlive the rows before it."""
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


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that a layout may have; raises `TypeError` or `UnicodeError` for odd ones."""
    if len(names) > MAXIMUM_NAMES:
        raise TypeError(f"{len(names)} names in one row; at most {MAXIMUM_NAMES} are kept")
    for name in names:
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise TypeError(f"a name must be text of at most {LONGEST_NAME} characters")
        name.encode()  # raises for a lone surrogate
    return names
