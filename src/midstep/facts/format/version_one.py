"""Reads lines of version 1, the layout of the original system, as lines of today's version.

A line of version 1 is a JSON object without number and CRC:

    {"schema_version": 1, "moment": "on_epoch_end", "run_dir": "…", "epoch": 0, …, "meta": {…}}

It has no time, no run id and no timeline, and each carries the whole histories. The number is the
number of the line, the histories are left out (readers derive them from the epochs), and the other
fields keep their names.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import read_plain
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import (
    SCHEMA_VERSION,
    EventHeader,
    EventLine,
    check_line,
    encode_fields,
    encode_line,
)

VERSION_ONE = 1
LARGEST_CSV_BYTES = 64 << 20
_MAY_BE_EVENT = re.compile(rb'\s*\{.*"schema_version"', re.DOTALL)
_MOMENT = re.compile(r"on_[a-z_]+")
_TIMES = ("timestamp", "time", "wall", "wall_time", "created_at")
_LEFT_OUT = frozenset({"schema_version", "moment", "run_dir", "histories"})
_RUN_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_-](\d\d)[:-]?(\d\d)[:-]?(\d\d)")
_CSV_COLUMNS = ("train_loss", "val_loss", "epoch_time_s", "throughput", "max_memory_mib")


def may_be_event(raw: bytes) -> bool:
    """Whether the beginning of a line looks like one of any version; a cheap first check."""
    return _MAY_BE_EVENT.match(raw, 0, 4096) is not None


def upcast_line(raw: bytes, seq: int, began_at: float = 0.0) -> EventLine | None:
    """The line as one of today's version; None if it is damaged.

    A whole line of a version that is not known keeps that version, so that readers refuse it.

    Args:
        raw: the line without its newline; it is not a line of today's version.
        seq: the number of the line.
        began_at: when the run began, for lines that do not say their time.

    >>> upcast_line(b'{"schema_version": 1, "moment": "on_start", "run_dir": "x"}', 1).version
    2
    """
    if not may_be_event(raw):
        return None
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    version = record.get("schema_version")
    if "crc" in record or type(version) is not int or version == SCHEMA_VERSION:
        return None
    if version != VERSION_ONE:
        return EventLine(seq, version, raw)
    moment = record.get("moment")
    if not isinstance(moment, str) or _MOMENT.fullmatch(moment) is None:
        return None
    wall = _wall(record, began_at)
    head = EventHeader(1, 0, wall, max(0.0, wall - began_at), moment, "", 0)
    line = encode_line(seq, head, encode_fields(_fields(record)))
    return check_line(line.removesuffix(b"\n"))


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        name: value
        for name, value in record.items()
        if name not in _LEFT_OUT and not name.startswith("history_") and value is not None
    }
    meta = record.get("meta")
    if record["moment"] == Moment.START and isinstance(meta, dict):
        # Today's start record has these besides its other fields.
        named = {name: meta[name] for name in ("config", "seed", "host", "name") if name in meta}
        return named | fields
    return fields


def _wall(record: Mapping[str, Any], began_at: float) -> float:
    """When the line was written, in seconds since 1970."""
    meta = record.get("meta")
    for source in (record, meta if isinstance(meta, dict) else {}):
        for name in _TIMES:
            seconds = _as_seconds(source.get(name))
            if seconds is not None:
                return seconds
    total = record.get("total_time_s")
    is_time = isinstance(total, int | float) and not isinstance(total, bool) and 0 <= total < 1e9
    return began_at + (float(total) if is_time and total is not None else 0.0)


def _as_seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11:
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def time_in_name(events_file: Path, modified_at: float) -> float:
    """When a run began, by the name of its directory; else when its events were changed last.

    >>> time_in_name(Path("run_20250301_120000_ae/facts/events.jsonl"), 0.0)
    1740830400.0
    """
    match = _RUN_TIME.search(events_file.parent.parent.name)
    try:
        parts = [int(part) for part in match.groups()] if match else []
        return datetime(*parts, tzinfo=UTC).timestamp() if parts else modified_at  # type: ignore[arg-type,misc]
    except ValueError:
        return modified_at


def read_version_one_csv(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of a `scalars.csv` of version 1 as epoch records; empty if there is no such file.

    The original appended to this file, so a metric that was born late may lie beyond the columns of
    the head line: such a row is read as far as the head line goes.

    Raises:
        FormatError: the file has no column `epoch`, or is not CSV.
    """
    path = run_dir / "facts" / "scalars.csv"
    try:
        text = read_plain(path, LARGEST_CSV_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    table = csv.DictReader(io.StringIO(text), restkey="", restval="")
    try:
        if "epoch" not in (table.fieldnames or ()):
            raise FormatError(f"{path} has no column epoch; it is not a table of scalars")
        return [record for row in table if (record := _csv_record(row)) is not None]
    except csv.Error as error:
        raise FormatError(f"{path} cannot be read as CSV: {error}") from None


def _csv_record(row: Mapping[str, Any]) -> dict[str, Any] | None:
    epoch = _number(row.get("epoch"))
    if epoch is None or not epoch.is_integer():  # neither for NaN nor for infinity
        return None
    metrics = {
        name.removeprefix("metric_"): number
        for name, cell in row.items()
        if name.startswith("metric_") and (number := _number(cell)) is not None
    }
    values = {
        name: number for name in _CSV_COLUMNS if (number := _number(row.get(name))) is not None
    }
    return {"epoch": int(epoch), "split": row.get("split") or None, "metrics": metrics, **values}


def _number(cell: Any) -> float | None:
    try:
        return float(cell) if isinstance(cell, str) and cell.strip() else None
    except ValueError:
        return None
