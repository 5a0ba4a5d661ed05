"""The bytes of an events file: one JSON object a line, each ending in its own CRC.

    {"schema_version":2,"seq":7,…,"crc":"1c291ca3"}

The CRC-32 covers the line's bytes before `,"crc"`. A line without its newline is being written,
or a kill cut it short.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from midstep.core import strict_json
from midstep.core.storage import storage_error
from midstep.facts.reopened import Reopened
from midstep.facts.scan import Damage

__all__ = [
    "FIXED_FIELDS",
    "SCHEMA_VERSION",
    "EventsScanner",
    "Head",
    "Line",
    "encode_fields",
    "encode_line",
]

SCHEMA_VERSION = 2
CHUNK_BYTES = 4 << 20
LARGEST_LINE_CHARACTERS = 8 << 20
LARGEST_FIELD_CHARACTERS = 4 << 20

FIXED_FIELDS = (
    "schema_version",
    "seq",
    "attempt",
    "rank",
    "wall",
    "mono",
    "moment",
    "run_id",
    "timeline",
    "crc",
)
"""Fields the writer fills in; a caller's field of the same name gets a `_` behind it."""

_TAIL_BYTES = len(b',"crc":"00000000"}')
_START = re.compile(rb'\{"schema_version":(\d+),"seq":(\d+),')
_FIXED = re.compile(
    rb'\{"schema_version":\d+,"seq":\d+,"attempt":\d+,"rank":\d+,"wall":[^",]+,"mono":[^",]+,'
    rb'"moment":"([a-z_]+)","run_id":"[^"\\]*","timeline":(\d+)[,}]'
)
_RECORD = re.compile(rb'\{"schema_version":\d+,"seq":\d+,.*?,"crc":"[0-9a-f]{8}"\}')


class Line(NamedTuple):
    """One whole record, not yet parsed."""

    seq: int
    version: int
    raw: bytes

    def record(self) -> dict[str, Any]:
        """The record as a dict, its CRC left out."""
        made: dict[str, Any] = json.loads(self.raw)
        del made["crc"]
        return made

    def json(self) -> bytes:
        """The same as JSON, nothing parsed: what was written is strict JSON already."""
        return self.raw[:-_TAIL_BYTES] + b"}"

    def place(self) -> tuple[str, int]:
        """Moment and timeline; read off where the line has the form that our writer gives it."""
        found = _FIXED.match(self.raw)
        if found is not None:
            return found[1].decode(), int(found[2])
        record = self.record()
        return str(record["moment"]), int(record["timeline"])


class Head(NamedTuple):
    """The fields the writer fills in, but for the number."""

    attempt: int
    rank: int
    wall: float
    mono: float
    moment: str
    run_id: str
    timeline: int


def encode_fields(fields: Mapping[str, Any]) -> str:
    """The caller's fields as JSON without the braces; what is huge or odd becomes a note."""
    given = {(f"{name}_" if name in FIXED_FIELDS else name): fields[name] for name in fields}
    try:
        text = strict_json.dumps(given)
    except Exception:  # noqa: BLE001 - a user's __repr__ or tolist may raise anything; noted below
        text = ""
    if not text or len(text) > LARGEST_LINE_CHARACTERS:
        text = strict_json.dumps({name: _bounded(value) for name, value in given.items()})
    return text[1:-1]


def encode_line(seq: int, head: Head, fields_text: str) -> bytes:
    """One line, with CRC and newline."""
    fixed = strict_json.dumps({"schema_version": SCHEMA_VERSION, "seq": seq, **head._asdict()})
    body = (f"{fixed[:-1]},{fields_text}" if fields_text else fixed[:-1]).encode()
    return body + b',"crc":"%08x"}\n' % crc32(body)


def _bounded(value: Any) -> Any:
    try:
        size = len(strict_json.dumps(value))
    except Exception as error:  # noqa: BLE001 - as above: the note says what happened
        return f"<left out: cannot be encoded, {type(error).__name__}>"
    return value if size <= LARGEST_FIELD_CHARACTERS else f"<left out: {size} characters of JSON>"


def check_line(raw: bytes) -> Line | None:
    """The line, when its CRC fits."""
    body = raw[:-_TAIL_BYTES]
    start = _START.match(raw)
    if start is None or raw[-_TAIL_BYTES:] != b',"crc":"%08x"}' % crc32(body):
        return None
    return Line(int(start[2]), int(start[1]), raw)


class EventsScanner:
    """Reads the lines of one events file, each once, as they appear.

    Args:
        path: the file.
        offset: where a line starts that is to be the first.
        held: keep the file open until `close`.
    """

    def __init__(self, path: Path, *, offset: int = 0, held: bool = False) -> None:
        self.path = path
        self._file = Reopened(path, held=held)
        self.offset = offset
        """File offset behind the last line."""
        self.damages: list[Damage] = []

    def read(self) -> Iterator[Line]:
        """The whole lines that are new since the last call."""
        try:
            with self._file.descriptor() as descriptor:
                size = os.fstat(descriptor).st_size
                chunk_bytes = CHUNK_BYTES
                while self.offset < size:
                    length = min(chunk_bytes, size - self.offset)
                    buffer = os.pread(descriptor, length, self.offset)
                    end = buffer.rfind(b"\n") + 1
                    yield from self._lines(buffer[:end])
                    if end == 0 and self.offset + len(buffer) >= size:
                        return
                    chunk_bytes = CHUNK_BYTES if end else chunk_bytes * 2
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(self.path, "read", error) from error

    def close(self) -> None:
        """Let the file go, where it is held open."""
        self._file.close()

    def _lines(self, buffer: bytes) -> Iterator[Line]:
        for raw in buffer.split(b"\n")[:-1]:
            at = self.offset
            self.offset += len(raw) + 1
            line = check_line(raw)
            if line is not None:
                yield line
            else:
                yield from self._salvage(raw, at)

    def _salvage(self, raw: bytes, at: int) -> Iterator[Line]:
        """Whole records inside a damaged line, as when the newline between two was hit."""
        done = 0
        for match in _RECORD.finditer(raw):
            line = check_line(match[0])
            if line is not None:
                if match.start() > done:
                    self.damages.append(Damage(at + done, at + match.start()))
                done = match.end()
                yield line
        if done < len(raw):
            self.damages.append(Damage(at + done, at + len(raw) + 1))
