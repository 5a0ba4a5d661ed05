"""One line of an events file: a JSON object that ends in its own CRC.

    {"schema_version":2,"seq":7,…,"crc":"1c291ca3"}

The CRC-32 covers the bytes of the line before `,"crc"`. A line without a newline is being written,
or a kill cut it short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from midstep.core import strict_json

SCHEMA_VERSION = 2
LARGEST_LINE_CHARACTERS = 8 << 20
LARGEST_FIELD_CHARACTERS = 4 << 20


class EventHeader(NamedTuple):
    """The fields that the writer fills in, except the number."""

    attempt: int
    rank: int
    wall: float
    mono: float
    moment: str
    run_id: str
    timeline: int


FIXED_FIELDS = ("schema_version", "seq", *EventHeader._fields, "crc")
"""Fields that the writer fills in. A caller's field of the same name gets a trailing `_`."""

_TAIL_BYTES = len(b',"crc":"00000000"}')
# Number, version, moment and timeline are read by pattern: parsing the JSON of every line costs
# readers of long files most of their time.
_START = re.compile(rb'\{"schema_version":(\d+),"seq":(\d+),')
_FIXED = re.compile(
    rb'\{"schema_version":\d+,"seq":\d+,"attempt":\d+,"rank":\d+,"wall":[^",]+,"mono":[^",]+,'
    rb'"moment":"([a-z_]+)","run_id":"[^"\\]*","timeline":(\d+)[,}]'
)
_RECORD = re.compile(rb'\{"schema_version":\d+,"seq":\d+,.*?,"crc":"[0-9a-f]{8}"\}')


class EventLine(NamedTuple):
    """One whole record that is not parsed yet."""

    seq: int
    version: int
    raw: bytes

    def record(self) -> dict[str, Any]:
        """The record as a dict, without its CRC."""
        record: dict[str, Any] = json.loads(self.raw)
        del record["crc"]
        return record

    def json(self) -> bytes:
        """The same as JSON. Nothing is parsed, since the line is strict JSON already."""
        return self.raw[:-_TAIL_BYTES] + b"}"

    def moment_and_timeline(self) -> tuple[str, int]:
        """Moment and timeline; read without parsing if our writer made the line."""
        match = _FIXED.match(self.raw)
        if match is not None:
            return match[1].decode(), int(match[2])
        record = self.record()
        return str(record["moment"]), int(record["timeline"])


def encode_fields(fields: Mapping[str, Any]) -> str:
    """The caller's fields as JSON without the braces.

    A value that cannot be encoded, or is very large, is replaced by a note.
    """
    # Renamed, not refused: an event must not be lost because of a name.
    renamed = {(f"{name}_" if name in FIXED_FIELDS else name): fields[name] for name in fields}
    try:
        text = strict_json.dumps(renamed)
    except Exception:  # noqa: BLE001 - a user's __repr__ or tolist may raise anything
        text = ""
    if not text or len(text) > LARGEST_LINE_CHARACTERS:
        text = strict_json.dumps({name: _bounded(value) for name, value in renamed.items()})
    return text[1:-1]


def encode_line(seq: int, head: EventHeader, fields_text: str) -> bytes:
    """One line with CRC and newline."""
    # The caller's fields are encoded outside the lock; number and CRC are added here.
    fixed = strict_json.dumps({"schema_version": SCHEMA_VERSION, "seq": seq, **head._asdict()})
    body = (f"{fixed[:-1]},{fields_text}" if fields_text else fixed[:-1]).encode()
    return body + b',"crc":"%08x"}\n' % crc32(body)


def _bounded(value: Any) -> Any:
    try:
        size = len(strict_json.dumps(value))
    except Exception as error:  # noqa: BLE001 - as above; the note names the error
        return f"<left out: cannot be encoded, {type(error).__name__}>"
    return value if size <= LARGEST_FIELD_CHARACTERS else f"<left out: {size} characters of JSON>"


def check_line(raw: bytes) -> EventLine | None:
    """The line if its CRC fits, else None."""
    # The CRC is compared as bytes, in the only form the writer gives it: nothing is parsed.
    body = raw[:-_TAIL_BYTES]
    start = _START.match(raw)
    if start is None or raw[-_TAIL_BYTES:] != b',"crc":"%08x"}' % crc32(body):
        return None
    return EventLine(int(start[2]), int(start[1]), raw)


def find_records(raw: bytes) -> Iterator[tuple[int, EventLine]]:
    """Whole records inside a damaged line, each with its position in it."""
    for match in _RECORD.finditer(raw):
        line = check_line(match[0])
        if line is not None:
            yield match.start(), line
