"""One line of an events file: a JSON object that ends in its own CRC.

    {"schema_version":2,"seq":7,…,"crc":"1c291ca3"}

The CRC-32 covers the bytes of the line before `,"crc"`. A line without a newline is being written,
or a kill cut it short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from midstep.core import strict_json
from midstep.core.files.masked_text import mask_page_tokens

SCHEMA_VERSION = 2
LARGEST_LINE_CHARACTERS = 8 << 20
LARGEST_FIELD_CHARACTERS = 4 << 20
LARGEST_LINE_BYTES = 64 << 20
"""No writer makes a longer line; a reader skips one as damaged."""
UNREADABLE = "unreadable"
"""The moment of a record whose CRC fits, but whose JSON no writer made."""
MOST_DEPTH = 2 * strict_json.MAX_DEPTH


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
_START = re.compile(rb'\{"schema_version":(\d{1,9}),"seq":(\d{1,18}),')
_FIXED = re.compile(
    rb'\{"schema_version":\d+,"seq":\d+,"attempt":\d+,"rank":\d+,"wall":[^",]+,"mono":[^",]+,'
    rb'"moment":"([a-z_]+)","run_id":"[^"\\]*","timeline":(\d{1,9})[,}]'
)
_RECORD_HEAD = b'{"schema_version":'
_RECORD_TAIL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_LONG_NUMBER = re.compile(rb"\d{19}")


class EventLine(NamedTuple):
    """One whole record that is not parsed yet."""

    seq: int
    version: int
    raw: bytes

    def record(self) -> dict[str, Any]:
        """The record as a dict, without its CRC."""
        record = parse_record(self.raw)
        record.pop("crc", None)
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

    A value that cannot be encoded, or is very large, is replaced by a note. Tokens of a page are
    masked: an address may be in a setting, in a note or in the text of an error.
    """
    # Renamed, not refused: an event must not be lost because of a name.
    renamed = {(f"{name}_" if name in FIXED_FIELDS else name): fields[name] for name in fields}
    try:
        text = strict_json.dumps(renamed)
    except Exception:  # noqa: BLE001 - a user's __repr__ or tolist may raise anything
        text = ""
    if not text or len(text) > LARGEST_LINE_CHARACTERS:
        text = strict_json.dumps({name: _bounded(value) for name, value in renamed.items()})
    if len(text) > LARGEST_LINE_BYTES // 5:  # many fields; a character takes up to four bytes
        note = f"<left out: {len(text)} characters in {len(renamed)} fields>"
        text = strict_json.dumps({"fields": note})
    return mask_page_tokens(text[1:-1])


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


def parse_record(raw: bytes) -> dict[str, Any]:
    """The fields of a line whose CRC fits.

    A CRC is not a signature: anybody can make a line. Numbers of more than 18 digits become None,
    the fields that every record has get a value of their type, and a line that cannot be read at
    all becomes a record with the moment `unreadable`.
    """
    try:
        # The search is much faster than a call for every number.
        has_long_number = _LONG_NUMBER.search(raw) is not None
        record = json.loads(raw, parse_int=_short_int if has_long_number else None)
    except (ValueError, RecursionError):
        record = None
    # Most records have fewer brackets than the depth that is refused.
    may_be_deep = raw.count(b"[") + raw.count(b"{") > MOST_DEPTH
    if not isinstance(record, dict) or (may_be_deep and _is_deep(record)):
        start = _START.match(raw)
        version, seq = (1, 0) if start is None else (int(start[1]), int(start[2]))
        record = {"schema_version": version, "seq": seq, "moment": UNREADABLE}
    if _is_sound(record):  # nearly always
        return record
    return {**record, **{name: check(record.get(name)) for name, check in _FIXED_TYPES.items()}}


def _is_deep(record: dict[str, Any]) -> bool:
    """Whether a record is nested deeper than a writer makes it, so that recursion may fail."""
    level: list[Any] = [record]
    for _ in range(MOST_DEPTH):
        inside = [
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        ]
        level = [each for items in inside for each in items if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _short_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= 18 else None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 10**18 else 0


def _seconds(value: Any) -> float:
    # 1e11 seconds are three thousand years; a calendar ends there.
    return float(value) if type(value) in (int, float) and abs(value) < 1e11 else 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_FIXED_TYPES: dict[str, Callable[[Any], Any]] = {
    "schema_version": _count,
    "seq": _count,
    "attempt": _count,
    "rank": _count,
    "wall": _seconds,
    "mono": _seconds,
    "moment": _text,
    "run_id": _text,
    "timeline": _count,
}


_fixed_values = itemgetter(*_FIXED_TYPES)
_SOUND = (int, int, int, int, float, float, str, str, int)


def _is_sound(record: dict[str, Any]) -> bool:
    """Whether the fields that every record has are as a writer makes them."""
    try:
        values = _fixed_values(record)
    except KeyError:
        return False
    # Integers of more than 18 digits are not integers here any more.
    return (
        tuple(map(type, values)) == _SOUND
        and min(*values[:4], values[8]) >= 0
        and -1e11 < values[4] < 1e11
        and -1e11 < values[5] < 1e11
    )


def find_records(raw: bytes) -> Iterator[tuple[int, EventLine]]:
    """Whole records inside a damaged line, each with its position in it."""
    # Only the first and the last head before each tail are tried: all pairs of a line of megabytes
    # that somebody made for it would take days.
    end = 0
    for tail in _RECORD_TAIL.finditer(raw):
        first = raw.find(_RECORD_HEAD, end, tail.start())
        last = raw.rfind(_RECORD_HEAD, end, tail.start())
        for position in dict.fromkeys((first, last)):
            line = check_line(raw[position : tail.end()]) if position >= 0 else None
            if line is not None:
                yield position, line
                break
        end = tail.end()
