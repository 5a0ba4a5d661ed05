"""Reads steps files and events files while they grow, and tells whole records from damage.

Each scanner continues where it stopped. Whatever follows the last whole record is left alone: it
is being written, or a kill cut it short. After damage the scan continues at the next record whose
CRC fits.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from midstep.core.files.storage import storage_error
from midstep.core.files.untrusted_files import data_pieces, open_in_folder
from midstep.facts.format.event_lines import (
    LARGEST_LINE_BYTES,
    EventLine,
    check_line,
    find_records,
)
from midstep.facts.format.step_frames import (
    FILE_HEADER_BYTES,
    LAYOUT,
    MAXIMUM_FRAME_BYTES,
    ROW_HEAD_BYTES,
    SEAL,
    FileHeader,
    parse_file_header,
    seal_fields,
)
from midstep.facts.format.version_one import may_be_event, time_in_name, upcast_line

CHUNK_BYTES = 4 << 20
MOST_AT_ONCE_BYTES = 64 << 20
"""The most that `read_new_bytes` puts into memory; longer files are scanned in chunks."""
MOST_DAMAGES = 1_000
"""Damaged parts that are listed one by one; all further ones count as one, with what is between."""
MOST_SEARCHED = 8
"""How often over the bytes of a chunk may be checked while the next whole frame is searched."""
MOST_FRAME_HEADS = 4096
"""Heads remembered as plausible. A run has one per layout; damaged bytes can look like many."""
SMALLEST_FRAME_BYTES = 24
SEAL_BYTES = 32
_CRC_HEAD = struct.Struct("<III")
_CRC = struct.Struct("<I")
_HEAD = struct.Struct("<4xII")
_NOT_ZERO = re.compile(rb"[^\0]")

Span = tuple[int, int, int, int]
"""(offset in the buffer, size, what, frames): frames of one kind and size, without a gap."""


class DamagedBytes(NamedTuple):
    """Bytes of a file, from `start` up to `stop`, that are not a whole record."""

    start: int
    stop: int


class CheckedChunk(NamedTuple):
    """Checked frames of one buffer, in file order."""

    buffer: bytes
    spans: list[Span]


class GrowingFile:
    """A file that is read again and again, each time from where reading stopped.

    Args:
        path: the file; it may not exist yet.
        offset: where to start.
        held: keep the file open until `close`. A reader that polls ten times a second next to a
            training does: every system call releases the interpreter lock and waits to get it
            back. A reader of a thousand runs does not: it would run out of descriptors.
    """

    most_bytes = CHUNK_BYTES
    """The most that is put into memory at once, and more than any record takes."""

    def __init__(self, path: Path, *, offset: int = 0, held: bool = False) -> None:
        self.path = path
        self.offset = offset
        """File offset after the last record that was read."""
        self.damages: list[DamagedBytes] = []
        self._held = held
        self._file: FileIO | None = None
        self._size = 0
        self._searched = (0, 0)
        """An offset, and the size of the file when no record was found after that offset."""

    @property
    def unread_bytes(self) -> int:
        """How much of the file was not scanned yet when it was last opened."""
        return max(0, self._size - self.offset)

    def close(self) -> None:
        """Close the file if it is held open; the next read opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _chunks(self) -> Iterator[tuple[bytes, bool]]:
        """The bytes from `offset` on, in chunks, each with whether it reaches the end of the file.

        The caller moves `offset` after the records it used. If a chunk holds no whole record, the
        next one starts at the same offset and is twice as long. Bytes that are longer than any
        record are skipped as damaged.
        """
        try:
            with self._descriptor() as descriptor:
                self._size = os.fstat(descriptor).st_size
                chunk_bytes = CHUNK_BYTES
                while self.offset < self._size and self._searched != (self.offset, self._size):
                    start = self.offset
                    data = os.pread(descriptor, min(chunk_bytes, self._size - start), start)
                    # No data although the size promised some: the file was cut in the meantime.
                    is_end = not data or start + len(data) >= self._size
                    yield data, is_end
                    if self.offset > start:
                        chunk_bytes = CHUNK_BYTES
                    elif is_end:
                        return
                    elif chunk_bytes < self.most_bytes:
                        chunk_bytes = min(2 * chunk_bytes, self.most_bytes)
                    else:
                        chunk_bytes = CHUNK_BYTES
                        self._skip_damage(descriptor, start + len(data))
        except FileNotFoundError:  # not written yet, or removed with its run
            return
        except OSError as error:
            raise storage_error(self.path, "read", error) from error

    def _skip_damage(self, descriptor: int, start: int) -> None:
        """Move `offset` after bytes that are longer than any record and hold none.

        If nothing follows them, `offset` stays: a writer cuts them off as a torn tail.
        """
        stop = self._find_start(descriptor, start)
        if stop is None:
            self._searched = (self.offset, self._size)
        else:
            self._add_damage(self.offset, stop)
            self.offset = stop

    def _find_start(self, descriptor: int, start: int) -> int | None:
        """Where the first record may start that ends after `start`; None if there is none."""
        raise NotImplementedError

    def _add_damage(self, start: int, stop: int) -> None:
        """Note damaged bytes, as one with those just before them."""
        last = self.damages[-1] if self.damages else None
        if last is not None and (last.stop == start or len(self.damages) >= MOST_DAMAGES):
            self.damages[-1] = DamagedBytes(last.start, stop)
        else:
            self.damages.append(DamagedBytes(start, stop))

    @contextmanager
    def _descriptor(self) -> Iterator[int]:
        file = self._file or FileIO(open_in_folder(self.path))
        if self._held:
            self._file = file
        try:
            yield file.fileno()
        finally:
            if not self._held:
                file.close()


class EventsScanner(GrowingFile):
    """Reads the lines of one events file, each once, as they appear."""

    most_bytes = LARGEST_LINE_BYTES
    _numbered = (0, 0)
    """An offset, and the number of lines before it; for lines of version 1, which have none."""

    def read(self) -> Iterator[EventLine]:
        """The whole lines that are new since the last call."""
        for data, _ in self._chunks():
            yield from self._lines(data[: data.rfind(b"\n") + 1])

    def _lines(self, buffer: bytes) -> Iterator[EventLine]:
        for raw in buffer.split(b"\n")[:-1]:
            # Moved before the line is given out: a reader that stops here continues after it.
            start = self.offset
            self.offset += len(raw) + 1
            if not raw:  # a file of nothing but line ends must not take minutes
                continue
            line = check_line(raw) or self._upcast(raw, start)
            if line is not None:
                yield line
            else:
                yield from self._salvage(raw, start)

    def _upcast(self, raw: bytes, start: int) -> EventLine | None:
        """A line of version 1 at offset `start` as one of today's version; else None."""
        if not may_be_event(raw):
            return None
        lines = self._lines_before(start)
        self._numbered = (start, lines)
        began_at = time_in_name(self.path, self.path.lstat().st_mtime)
        return upcast_line(raw, lines + 1, began_at)

    def _lines_before(self, offset: int) -> int:
        """The number of lines before an offset, counted from the last one that is known."""
        start, lines = self._numbered
        if start > offset:
            start, lines = 0, 0
        with FileIO(open_in_folder(self.path)) as file:
            while start < offset:
                data = os.pread(file.fileno(), min(CHUNK_BYTES, offset - start), start)
                if not data:
                    break
                lines += data.count(b"\n")
                start += len(data)
        return lines

    def _salvage(self, raw: bytes, start: int) -> Iterator[EventLine]:
        """Whole records inside a damaged line, for example if the newline between two is lost."""
        end = 0
        for position, line in find_records(raw):
            if position > end:
                self._add_damage(start + end, start + position)
            end = position + len(line.raw)
            yield line
        if end < len(raw):
            self._add_damage(start + end, start + len(raw) + 1)

    def _find_start(self, descriptor: int, start: int) -> int | None:
        """After the next newline."""
        for offset, data in data_pieces(descriptor, start, self._size):
            at = data.find(b"\n")
            if at >= 0:
                return offset + at + 1
        return None


class StepsScanner(GrowingFile):
    """Reads the frames of one steps file, each once, as they appear.

    A block of frames that ends in a seal is checked by one CRC. The open end, and a block whose
    seal does not fit, is checked frame by frame. At the start offset a frame must begin.
    """

    most_bytes = 2 * MAXIMUM_FRAME_BYTES

    def __init__(self, path: Path, *, offset: int = 0, held: bool = False) -> None:
        super().__init__(path, offset=offset, held=held)
        self.header: FileHeader | None = None
        self._plausible: set[tuple[int, int]] = set()

    def read(self) -> Iterator[CheckedChunk]:
        """The frames that are new since the last call."""
        for data, is_end in self._chunks():
            buffer = data if self.offset else self._after_header(data)
            if not buffer:
                continue
            spans, used_bytes = self._scan(buffer, is_end=is_end)
            self.offset += used_bytes
            if spans:
                yield CheckedChunk(buffer, spans)

    def _after_header(self, data: bytes) -> bytes:
        """Read the header at the start of the file; gives the bytes after it."""
        if len(data) < FILE_HEADER_BYTES:
            return b""
        self.header = parse_file_header(data, str(self.path))
        if self.header is None:
            self._add_damage(0, FILE_HEADER_BYTES)
        self.offset = FILE_HEADER_BYTES
        return data[FILE_HEADER_BYTES:]

    def _scan(self, buffer: bytes, *, is_end: bool) -> tuple[list[Span], int]:
        """Checked spans of `buffer`, which starts at `self.offset`, and the bytes they take."""
        spans: list[Span] = []
        block: list[Span] = []
        start = at = 0
        while True:
            size, what = head = self._head(buffer, at)
            stop = at + size
            is_cut = max(stop, at + _CRC_HEAD.size) > len(buffer)
            if is_cut and not is_end:
                # The block continues after this chunk. Its seal covers all of it, so the next
                # chunk starts at the beginning of the block again.
                return spans, start
            if size and what != SEAL and not is_cut:
                # The next head is compared here first: a call for each frame would cost most of
                # the time where layouts alternate.
                frames = 1
                if stop + _CRC_HEAD.size <= len(buffer) and _HEAD.unpack_from(buffer, stop) == head:
                    frames = self._count_rows(buffer, at, size, what)
                block.append((at, size, what, frames))
                at += size * frames
                continue
            if what == SEAL and not is_cut and self._seal_fits(buffer, start, at):
                spans += block
                start = at = at + size
            else:
                # No seal, or one that does not fit: up to here no CRC was computed yet.
                resume = at if is_cut else at + size
                checked, start, is_sound = self._check(buffer, start, resume, block)
                spans += checked
                if not is_sound:
                    return spans, start
                at = start
            block = []

    @staticmethod
    def _count_rows(buffer: bytes, offset: int, size: int, what: int) -> int:
        """How many frames of that size and layout follow each other, the one at `offset` included.

        Counted one by one, since a writer needs no numpy; `StepsReader` has a faster way.
        """
        head = _HEAD.unpack_from
        last = len(buffer) - size
        at, count = offset + size, 1
        while at <= last and head(buffer, at) == (size, what):
            at += size
            count += 1
        return count

    def _head(self, buffer: bytes, at: int) -> tuple[int, int]:
        """`frame_head`, which remembers the heads that were plausible before."""
        if at + _CRC_HEAD.size > len(buffer):
            return 0, 0
        head: tuple[int, int] = _HEAD.unpack_from(buffer, at)
        if head in self._plausible:
            return head
        head = frame_head(buffer, at)
        if head[0]:
            if len(self._plausible) >= MOST_FRAME_HEADS:
                self._plausible.clear()
            self._plausible.add(head)
        return head

    def _seal_fits(self, buffer: bytes, start: int, at: int) -> bool:
        covered, covered_start = seal_fields(buffer, at)
        # A seal names the file offset it covers from. After damage, or where a writer continued an
        # old file, the block in hand may start elsewhere: then its frames are checked one by one.
        if covered_start != self.offset + start or not is_whole_frame(buffer, at, SEAL_BYTES):
            return False
        return crc32(memoryview(buffer)[start:at]) == covered

    def _check(
        self, buffer: bytes, start: int, resume: int, block: list[Span]
    ) -> tuple[list[Span], int, bool]:
        """Check frame by frame up to `resume`, or to the first whole frame after it.

        Returns the spans, the offset reached, and whether the scan can continue from there.
        """
        spans, at = _whole_frames(buffer, start, block)
        budget = MOST_SEARCHED * len(buffer)
        while at < resume or at == start:
            size, what = frame_head(buffer, at)
            if size and at + size <= len(buffer) and is_whole_frame(buffer, at, size):
                _append(spans, at, size, what)
                at += size
                continue
            next_frame, budget = self._find_frame(buffer, at + 8, budget)
            if next_frame is None:
                # No whole frame follows, so this may be a frame that is being written. It counts
                # as damage only when a whole one appears after it.
                return spans, at, False
            self._add_damage(self.offset + at, self.offset + next_frame)
            at = next_frame
        return spans, at, at > start

    def _find_frame(self, buffer: bytes, start: int, budget: int) -> tuple[int | None, int]:
        """The next offset where a whole frame starts, and what is left of `budget`.

        The budget bounds the bytes whose CRC is computed: every eight bytes of a file that
        somebody made for it may look like the head of a frame of megabytes.
        """
        for at in self._plausible_heads(buffer, start):
            size, _ = frame_head(buffer, at)
            if not size or at + size > len(buffer):
                continue
            budget -= size
            if budget < 0:
                return None, 0
            if is_whole_frame(buffer, at, size):
                return at, budget
        return None, budget

    @staticmethod
    def _plausible_heads(buffer: bytes, start: int) -> Iterator[int]:
        """Offsets from `start` on where a frame may start; frames are multiples of eight bytes.

        Tried one by one, since a writer needs no numpy; `StepsReader` has a faster way.
        """
        at, last = start, len(buffer) - SMALLEST_FRAME_BYTES
        while at <= last:
            if not any(buffer[at : at + 8]):  # a long gap of zeros is searched at once
                match = _NOT_ZERO.search(buffer, at)
                if match is None:
                    return
                at += (match.start() - at) // 8 * 8
            yield at
            at += 8

    def _find_start(self, descriptor: int, start: int) -> int | None:
        """At the next data, or so far before `start` that a frame may end there."""
        for offset, _ in data_pieces(descriptor, start, self._size):
            earliest = start - MAXIMUM_FRAME_BYTES
            # A frame is shorter than this hole, so none lies over it; its CRC may begin with zeros.
            at = offset - 8 if offset - start > MAXIMUM_FRAME_BYTES else earliest
            return at - (at - self.offset) % 8
        return None


def read_new_bytes(path: Path, offset: int) -> bytes | None:
    """The bytes of a file after an offset; None if they are more than 64 MiB."""
    try:
        with FileIO(open_in_folder(path)) as file:
            size = os.fstat(file.fileno()).st_size - offset
            if size > MOST_AT_ONCE_BYTES:
                return None
            return os.pread(file.fileno(), max(0, size), offset)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise storage_error(path, "read", error) from error


def frame_head(buffer: bytes, at: int) -> tuple[int, int]:
    """Size and kind of the frame at `at`; size 0 when no frame can start there."""
    if at + _CRC_HEAD.size > len(buffer):
        return 0, 0
    size, what = _HEAD.unpack_from(buffer, at)
    if size % 8 or not SMALLEST_FRAME_BYTES <= size <= MAXIMUM_FRAME_BYTES:
        return 0, 0
    if what == SEAL:
        return (size, what) if size == SEAL_BYTES else (0, 0)
    # A row has the id of its layout here, 1 to 2^31 - 1; the two marks are above that.
    is_row = 0 < what < LAYOUT - 1 and size >= ROW_HEAD_BYTES
    return (size, what) if is_row or what == LAYOUT else (0, 0)


def is_whole_frame(buffer: bytes, at: int, size: int) -> bool:
    """Whether the CRC of the frame of that size at `at` fits."""
    expected = _CRC_HEAD.unpack_from(buffer, at)[0]
    return bool(crc32(memoryview(buffer)[at + 4 : at + size]) == expected)


def _whole_frames(buffer: bytes, start: int, block: list[Span]) -> tuple[list[Span], int]:
    """The frames of `block`, which begins at `start`, up to the first whose CRC does not fit."""
    view, crc_at = memoryview(buffer), _CRC.unpack_from
    spans: list[Span] = []
    for offset, size, what, frames in block:
        stop = start = offset + size * frames
        for at in range(offset, stop, size):
            if crc32(view[at + 4 : at + size]) != crc_at(buffer, at)[0]:
                if at > offset:
                    spans.append((offset, size, what, (at - offset) // size))
                return spans, at
        spans.append((offset, size, what, frames))
    return spans, start


def _append(spans: list[Span], at: int, size: int, what: int) -> None:
    """Add a frame: to the last span if it continues it, else as a new one."""
    if spans:
        offset, last_size, last_what, frames = spans[-1]
        if (last_size, last_what) == (size, what) and offset + size * frames == at:
            spans[-1] = (offset, size, what, frames + 1)
            return
    spans.append((at, size, what, 1))
