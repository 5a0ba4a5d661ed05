"""Walks a steps file from where it stopped last, and tells whole frames from damage.

A block that ends in a seal is checked by one CRC; the open end, and a block whose seal does not
fit, frame by frame. After damage the walk goes on at the next frame whose CRC fits. What stands
behind the last whole frame is left alone: it is being written, or a kill cut it short.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from midstep.core.storage import storage_error
from midstep.facts.frames import (
    FILE_HEADER_BYTES,
    LAYOUT,
    MAXIMUM_FRAME_BYTES,
    ROW_HEAD_BYTES,
    SEAL,
    FileHeader,
    parse_file_header,
    seal_fields,
)
from midstep.facts.reopened import Reopened

__all__ = ["Damage", "Piece", "Span", "StepsScanner", "frame_head", "is_whole_frame"]

CHUNK_BYTES = 4 << 20
SMALLEST_FRAME_BYTES = 24
_CRC_HEAD = struct.Struct("<III")
_CRC = struct.Struct("<I")
_HEAD = struct.Struct("<4xII")

CountRows = Callable[[bytes, int, int, int], int]
"""(buffer, offset, size, what) → how many frames of that size and layout follow each other."""


Span = tuple[int, int, int, int]
"""(offset in the buffer, size, what, frames): equal frames, one behind the other."""


class Piece(NamedTuple):
    """Checked frames of one buffer, in file order."""

    buffer: bytes
    spans: list[Span]


class Damage(NamedTuple):
    """Bytes of a file, from `start` up to `stop`, that make no whole record."""

    start: int
    stop: int


class StepsScanner:
    """Reads the frames of one steps file, each once, as they appear."""

    def __init__(
        self, path: Path, *, count_rows: CountRows | None = None, held: bool = False
    ) -> None:
        self.path = path
        self._file = Reopened(path, held=held)
        self.offset = 0
        """File offset behind the last checked frame."""
        self.header: FileHeader | None = None
        self.damages: list[Damage] = []
        self._count_rows = count_rows or _count_one
        self._plausible: set[tuple[int, int]] = set()
        self._size = 0

    @property
    def unread_bytes(self) -> int:
        """Bytes of the file that were not scanned yet when it was last opened."""
        return max(0, self._size - self.offset)

    def read(self) -> Iterator[Piece]:
        """The frames that are new since the last call."""
        try:
            with self._file.descriptor() as descriptor:
                yield from self._read(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(self.path, "read", error) from error

    def close(self) -> None:
        """Let the file go, where it is held open."""
        self._file.close()

    def _read(self, descriptor: int) -> Iterator[Piece]:
        size = self._size = os.fstat(descriptor).st_size
        if self.offset == 0 and not self._read_header(descriptor, size):
            return
        chunk_bytes = CHUNK_BYTES
        while self.offset < size:
            buffer = os.pread(descriptor, min(chunk_bytes, size - self.offset), self.offset)
            is_end = not buffer or self.offset + len(buffer) >= size
            spans, used = self._scan(buffer, is_end=is_end)
            self.offset += used
            if spans:
                yield Piece(buffer, spans)
            if used == 0 and is_end:
                return
            chunk_bytes = CHUNK_BYTES if used else chunk_bytes * 2

    def _read_header(self, descriptor: int, size: int) -> bool:
        if size < FILE_HEADER_BYTES:
            return False
        self.header = parse_file_header(os.pread(descriptor, FILE_HEADER_BYTES, 0), str(self.path))
        if self.header is None:
            self.damages.append(Damage(0, FILE_HEADER_BYTES))
        self.offset = FILE_HEADER_BYTES
        return True

    def _scan(self, buffer: bytes, *, is_end: bool) -> tuple[list[Span], int]:
        """Checked spans of `buffer`, which starts at `self.offset`, and the bytes they take."""
        spans: list[Span] = []
        block: list[Span] = []
        start = at = 0
        while True:
            size, what = head = self._head(buffer, at)
            stop = at + size
            is_cut = max(stop, at + _CRC_HEAD.size) > len(buffer)
            if is_cut and not is_end:  # the block goes on behind this chunk: read it again whole
                return spans, start
            if size and what != SEAL and not is_cut:
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
                resume = at if is_cut else at + size
                checked, start, is_sound = self._check(buffer, start, resume, block)
                spans += checked
                if not is_sound:
                    return spans, start
                at = start
            block = []

    def _head(self, buffer: bytes, at: int) -> tuple[int, int]:
        """`frame_head`, with what was found plausible before remembered."""
        if at + _CRC_HEAD.size > len(buffer):
            return 0, 0
        head: tuple[int, int] = _HEAD.unpack_from(buffer, at)
        if head in self._plausible:
            return head
        head = frame_head(buffer, at)
        if head[0]:
            if len(self._plausible) >= 4096:
                self._plausible.clear()
            self._plausible.add(head)
        return head

    def _seal_fits(self, buffer: bytes, start: int, at: int) -> bool:
        covered, covered_start = seal_fields(buffer, at)
        if covered_start != self.offset + start or not is_whole_frame(buffer, at, 32):
            return False
        return crc32(memoryview(buffer)[start:at]) == covered

    def _check(
        self, buffer: bytes, start: int, resume: int, block: list[Span]
    ) -> tuple[list[Span], int, bool]:
        """Check frame by frame up to `resume`, or to the first whole frame behind it.

        Returns the spans, the offset reached, and whether the walk can go on from there.
        """
        spans, at = _whole_frames(buffer, start, block)
        while at < resume or at == start:
            size, what = frame_head(buffer, at)
            if size and at + size <= len(buffer) and is_whole_frame(buffer, at, size):
                _append(spans, at, size, what)
                at += size
                continue
            found = _find_frame(buffer, at + 8)
            if found is None:
                return spans, at, False
            self.damages.append(Damage(self.offset + at, self.offset + found))
            at = found
        return spans, at, at > start


def _count_one(buffer: bytes, offset: int, size: int, what: int) -> int:
    """Count equal heads one by one; the reader with numpy has a faster one."""
    head = _HEAD.unpack_from
    last = len(buffer) - size
    at, count = offset + size, 1
    while at <= last and head(buffer, at) == (size, what):
        at += size
        count += 1
    return count


def frame_head(buffer: bytes, at: int) -> tuple[int, int]:
    """Size and kind of the frame at `at`; size 0 when no frame can start there."""
    if at + _CRC_HEAD.size > len(buffer):
        return 0, 0
    size, what = _HEAD.unpack_from(buffer, at)
    if size % 8 or not SMALLEST_FRAME_BYTES <= size <= MAXIMUM_FRAME_BYTES:
        return 0, 0
    if what == SEAL:
        return (size, what) if size == 32 else (0, 0)
    is_row = 0 < what < LAYOUT - 1 and size >= ROW_HEAD_BYTES
    return (size, what) if is_row or what == LAYOUT else (0, 0)


def is_whole_frame(buffer: bytes, at: int, size: int) -> bool:
    """Whether the frame of that size at `at` fits its CRC."""
    expected = _CRC_HEAD.unpack_from(buffer, at)[0]
    return bool(crc32(memoryview(buffer)[at + 4 : at + size]) == expected)


def _whole_frames(buffer: bytes, start: int, block: list[Span]) -> tuple[list[Span], int]:
    """The frames of `block`, which begins at `start`, up to the first that does not fit its CRC."""
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


def _find_frame(buffer: bytes, start: int) -> int | None:
    """The next offset, by eights, where a frame with a fitting CRC starts."""
    for at in range(start, len(buffer) - SMALLEST_FRAME_BYTES + 1, 8):
        size, _ = frame_head(buffer, at)
        if size and at + size <= len(buffer) and is_whole_frame(buffer, at, size):
            return at
    return None


def _append(spans: list[Span], at: int, size: int, what: int) -> None:
    """Add a frame, to the last span where it fits."""
    if spans:
        offset, last_size, last_what, frames = spans[-1]
        if (last_size, last_what) == (size, what) and offset + size * frames == at:
            spans[-1] = (offset, size, what, frames + 1)
            return
    spans.append((at, size, what, 1))
