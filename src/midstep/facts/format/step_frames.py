"""The bytes of a steps file: one header, then frames of layouts, rows and seals.

All numbers are little-endian, every frame is a multiple of eight bytes and starts with

    u32 crc    CRC-32 of the frame after this field
    u32 size   bytes of the whole frame
    u32 what   a row's layout id (below 2^31), or LAYOUT, or SEAL

`docs/facts-format.md` has the tables. This module needs the standard library alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection
from typing import Any, NamedTuple
from zlib import crc32

from midstep.core import strict_json
from midstep.core.errors import FormatError

MAGIC = b"MIDSTEPS"
VERSION = 2
LAYOUT = 0x8000_0001
SEAL = 0x8000_0002
ROW_HEAD_BYTES = 48
MAXIMUM_NAMES = 1_000_000
MAXIMUM_FRAME_BYTES = 64 << 20
SEAL_EVERY_BYTES = 256 << 10
"""Bytes between two seals: a reader checks this much with a single CRC."""

IDS_CHECKSUM = "ids_checksum"
WEIGHTS_CHECKSUM = "weights_checksum"
CHECKSUM_NAMES = frozenset({IDS_CHECKSUM, WEIGHTS_CHECKSUM})
"""Values that repeated steps are compared by. They are not measurements: lists, charts, streams and
exports leave them out; a reader that asks for one by its name gets it."""

_HEADER = struct.Struct("<8sIIII32sI")
FILE_HEADER_BYTES = _HEADER.size + 4
_CRC = struct.Struct("<I")
_LAYOUT_HEAD = struct.Struct("<IIIII")
_SEAL_BODY = struct.Struct("<IIIQQ")
_SEAL_FIELDS = struct.Struct("<12xIQ")


class FileHeader(NamedTuple):
    """The run, attempt and rank that wrote a steps file."""

    run_id: str
    attempt: int
    rank: int


def file_header(header: FileHeader) -> bytes:
    """The 64 bytes at the start of a steps file."""
    run_id = header.run_id.encode("ascii", "replace")[:32]
    body = _HEADER.pack(MAGIC, VERSION, FILE_HEADER_BYTES, header.attempt, header.rank, run_id, 0)
    return body + _CRC.pack(crc32(body))


def parse_file_header(data: bytes, name: str) -> FileHeader | None:
    """The header of a steps file; None if it is damaged.

    Raises:
        FormatError: if the header is whole, but of another format or version.
    """
    magic, version, _, attempt, rank, run_id, _ = _HEADER.unpack_from(data)
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
        return None
    if magic != MAGIC or version != VERSION:
        raise FormatError(
            f"{name} is a steps file of version {version}; this midstep reads version {VERSION}. "
            "Open it with the midstep that wrote it, or a newer one"
        )
    return FileHeader(run_id.rstrip(b"\0").decode("ascii"), attempt, rank)


class Layout:
    """The names of the values in a row. All rows of one layout have the same size."""

    __slots__ = ("_pack", "_unpack", "identity", "names", "row_bytes")

    def __init__(self, identity: int, names: tuple[str, ...]) -> None:
        self.identity, self.names = identity, names
        # size, what, timeline, seq, step, wall, mono, values; the CRC comes before them
        row = struct.Struct(f"<IIIQqdd{len(names)}d")
        self.row_bytes = row.size + 4
        self._pack = row.pack  # bound once: `row` below is the hot path of `log`
        self._unpack = struct.Struct(f"<4x8xIQq16x{len(names)}d").iter_unpack

    def row(
        self,
        timeline: int,
        seq: int,
        step: int,
        wall: float,
        mono: float,
        values: Collection[float],
    ) -> bytes:
        """One row frame. Raises what `struct` raises if a value is not a number."""
        body = self._pack(self.row_bytes, self.identity, timeline, seq, step, wall, mono, *values)
        return _CRC.pack(crc32(body)) + body

    def columns(self, rows: bytes) -> list[tuple[Any, ...]]:
        """The columns of row frames without a gap: timeline, number, step, then each value."""
        return list(zip(*self._unpack(rows), strict=True))


def layout_frame(layout: Layout) -> bytes:
    """The frame that defines a layout: its id and the names as a JSON array, zero-padded."""
    names = json.dumps(layout.names, ensure_ascii=False, separators=(",", ":")).encode()
    # Frames are multiples of eight bytes, so that rows can be read as arrays without a copy.
    padding = -(_LAYOUT_HEAD.size + 4 + len(names)) % 8
    size = _LAYOUT_HEAD.size + 4 + len(names) + padding
    head = _LAYOUT_HEAD.pack(size, LAYOUT, layout.identity, len(layout.names), len(names))
    body = head + names + bytes(padding)
    return _CRC.pack(crc32(body)) + body


def layout_names(buffer: bytes, offset: int) -> tuple[int, tuple[str, ...]]:
    """Id and names of the layout frame at `offset`.

    Raises:
        FormatError: the frame is whole, but another program made it.
    """
    size, _, identity, count, length = _LAYOUT_HEAD.unpack_from(buffer, offset + 4)
    start = offset + 4 + _LAYOUT_HEAD.size
    if count > MAXIMUM_NAMES or start + length > offset + size:
        raise FormatError(f"layout {identity} says that it has {count} names in {length} bytes")
    names = strict_json.loads(buffer[start : start + length])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"layout {identity} is not a list of names")
    if len(names) != count:
        raise FormatError(f"layout {identity} has {len(names)} names, but its frame says {count}")
    return identity, tuple(names)


def seal_frame(covered_crc: int, start: int, last_seq: int) -> bytes:
    """The frame whose CRC covers every byte from file offset `start` up to this frame."""
    body = _SEAL_BODY.pack(4 + _SEAL_BODY.size, SEAL, covered_crc, start, last_seq)
    return _CRC.pack(crc32(body)) + body


def seal_fields(buffer: bytes, offset: int) -> tuple[int, int]:
    """The CRC and the start of the seal frame at `offset`."""
    crc, start = _SEAL_FIELDS.unpack_from(buffer, offset)
    return crc, start
