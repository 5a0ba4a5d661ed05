"""What the events of a run come to, for a list; read on from where it stopped last.

A list of a thousand runs needs the starts, the ends and the last epoch of each: only these lines
are parsed. What is kept depends on the file alone, not on how often it was looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from midstep.core.moments import Moment
from midstep.core.storage import storage_error
from midstep.facts.flat_config import flat_config
from midstep.facts.history import as_number
from midstep.facts.lines import SCHEMA_VERSION, EventsScanner, Line, check_line

__all__ = ["EventsDigest", "metrics_of", "scalars_of"]

REASON_CHARACTERS = 1_000
LARGEST_PIECE_BYTES = 64 << 20
_PREFIX = f'{{"schema_version":{SCHEMA_VERSION},"seq":'.encode()
_FIGURES = frozenset({"epoch_time_s", "throughput", "max_memory_mib"})
_WORDS = ("name", "host", "device", "recipe")
_MOMENT = b',"moment":"'
_HEADS = re.compile(
    rb'^\{"schema_version":%d,"seq":\d+,"attempt":\d+,"rank":\d+,"wall":[^,\n]+,"mono":[^,\n]+,'
    rb'"moment":"(\w+)","run_id":"' % SCHEMA_VERSION,
    re.MULTILINE,
)
"""Of each line the moment."""
_EPOCHS = frozenset({Moment.EPOCH_END.encode(), Moment.VALIDATION_END.encode()})
_SKIPPED = frozenset({Moment.STEP.encode(), Moment.INTERVENTION.encode()})
_REWIND = b',"kind":"rewind"'
_PASSED_OVER = _EPOCHS | _SKIPPED
_VAL_LOSS = re.compile(rb',"val_loss":(-?[0-9][0-9.eE+-]*)')


@dataclass
class EventsDigest:
    """Plain values only: it is kept as JSON, and read back when the file has only grown."""

    offset: int = 0
    """File offset behind the last record taken in."""
    records: int = 0
    damages: int = 0
    refused: str | None = None
    """Why records were left out: a version that is not known here."""
    run_id: str | None = None
    attempt: int = 0
    timeline: int = 0
    seq: int = 0
    wall: float | None = None
    started_at: float | None = None
    """When the first attempt began."""
    header: dict[str, Any] = field(default_factory=dict)
    """Of the last start record: words, seed and total_steps."""
    config: dict[str, Any] = field(default_factory=dict)
    """Its settings, flat."""
    end: dict[str, Any] | None = None
    """The last end record since the last start: moment, status, reason, wall, total_time_s."""
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each moment the last record: seq, step, epoch and its values."""
    best_val_loss: float | None = None

    def read(self, path: Path) -> None:
        """Take in what is new in the file."""
        data = _new_bytes(path, self.offset)
        skimmed = None if data is None else _skim(data, self.best_val_loss)
        if data is None or skimmed is None:
            self._read_carefully(path)
            return
        for record in skimmed.records:
            self._take(record)
        self.best_val_loss = skimmed.best_val_loss
        if skimmed.last is not None:
            self._note_place(skimmed.last)
        self.records += skimmed.lines
        self.offset += len(data)

    def _read_carefully(self, path: Path) -> None:
        """Check every line, and find whole records in damaged ones."""
        scanner = EventsScanner(path, offset=self.offset)
        newest: dict[bytes, bytes] = {}
        last: Line | None = None
        for line in scanner.read():
            self.records += 1
            if line.version != SCHEMA_VERSION:
                self.refused = f"{path.name} has records of schema version {line.version}"
                continue
            last = line
            moment = _moment(line.raw)
            if moment in _EPOCHS:
                newest[moment] = line.raw
                self.best_val_loss = _better(line.raw, self.best_val_loss)
            elif moment not in _SKIPPED or _REWIND in line.raw:
                self._take(line.record())
        for raw in newest.values():
            self._take(json.loads(raw))
        if last is not None:
            self._note_place(last.record())
        self.offset = scanner.offset
        self.damages += len(scanner.damages)

    def _note_place(self, record: dict[str, Any]) -> None:
        """Where the file ends; numbers, timelines and attempts only ever rise."""
        self.seq, self.wall = record["seq"], record["wall"]
        self.run_id = str(record["run_id"])
        self.attempt, self.timeline = record["attempt"], record["timeline"]

    def _take(self, record: dict[str, Any]) -> None:
        moment = record["moment"]
        values = {**scalars_of(record), **metrics_of(record)}
        if moment == Moment.TEST_END:
            values = {_tested(name): value for name, value in values.items()}
        if moment == Moment.START:
            self._start(record)
        elif moment in (Moment.TRAIN_END, Moment.EXCEPTION):
            self._end(record)
        self.last[moment] = {
            "seq": record["seq"],
            "step": _whole(record.get("step")),
            "epoch": _whole(record.get("epoch")),
            "values": values,
        }

    def _start(self, record: dict[str, Any]) -> None:
        if self.started_at is None:
            self.started_at = record["wall"]
        self.end = None
        words = {name: record[name] for name in _WORDS if isinstance(record.get(name), str)}
        numbers = {name: _whole(record.get(name)) for name in ("seed", "total_steps")}
        self.header = {**words, **numbers}
        self.config = flat_config(record.get("config"))

    def _end(self, record: dict[str, Any]) -> None:
        said = record.get("error") or record.get("reason") or record.get("message")
        self.end = {
            "moment": record["moment"],
            "status": record.get("status"),
            "reason": None if said is None else str(said)[:REASON_CHARACTERS],
            "wall": record["wall"],
            "total_time_s": as_number(record.get("total_time_s")),
        }

    def values(self) -> dict[str, tuple[int, float]]:
        """(seq, value) of every name in the last records; of two the later counts."""
        found: dict[str, tuple[int, float]] = {}
        for record in sorted(self.last.values(), key=lambda each: int(each["seq"])):
            found |= {name: (record["seq"], value) for name, value in record["values"].items()}
        return found

    def newest(self, what: str) -> tuple[int, int] | None:
        """(seq, number) of the last record that names a `step` or an `epoch`."""
        named = [(each["seq"], each[what]) for each in self.last.values() if each[what] is not None]
        return max(named, default=None)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


class _Skimmed(NamedTuple):
    """What few of the lines of a healthy stretch say."""

    records: list[dict[str, Any]]
    last: dict[str, Any] | None
    best_val_loss: float | None
    lines: int


def _new_bytes(path: Path, offset: int) -> bytes | None:
    """Whole lines behind an offset; None when there is too much for one piece."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size - offset
            if size > LARGEST_PIECE_BYTES:
                return None
            data = os.pread(file.fileno(), size, offset)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return data[: data.rfind(b"\n") + 1]


def _skim(data: bytes, best: float | None) -> _Skimmed | None:
    """Parse what a list shows, each line of it checked; None when a line is not as it should be.

    The lines in between are neither parsed nor checked, which is what makes it fast.
    """
    lines = data.split(b"\n")[:-1]
    moments: list[bytes] = _HEADS.findall(data)
    if not len(moments) == len(lines) == data.count(_PREFIX):  # damaged, or run together
        return None
    newest = {moment: place for place, moment in enumerate(moments) if moment in _EPOCHS}
    chosen = [place for place, moment in enumerate(moments) if moment not in _PASSED_OVER]
    if _REWIND in data:
        chosen += [place for place, raw in enumerate(lines) if _is_rewind(raw, moments[place])]
    shown = [lines[place] for place in [*sorted(chosen), *newest.values()]]
    if any(check_line(raw) is None for raw in [*shown, *lines[-1:]]):
        return None
    last = json.loads(lines[-1]) if lines else None
    best = _best_of(data, best)
    return _Skimmed([json.loads(raw) for raw in shown], last, best, len(lines))


def _is_rewind(raw: bytes, moment: bytes) -> bool:
    return moment in _SKIPPED and _REWIND in raw


def _best_of(data: bytes, best: float | None) -> float | None:
    """The lowest validation loss in the whole epoch lines of a stretch, or `best`."""
    found: list[bytes] = _VAL_LOSS.findall(data)
    for number in sorted(set(found), key=float):
        loss = float(number)
        if best is not None and loss >= best:
            break
        if any(_better(raw, best) == loss for raw in _lines_with(data, number)):
            return loss
    return best


def _lines_with(data: bytes, number: bytes) -> Iterator[bytes]:
    """The epoch lines that have this validation loss."""
    at = data.find(b',"val_loss":' + number)
    while at >= 0:
        end = data.find(b"\n", at)
        raw = data[data.rfind(b"\n", 0, at) + 1 : end]
        if _moment(raw) in _EPOCHS:
            yield raw
        at = data.find(b',"val_loss":' + number, end)


def _moment(raw: bytes) -> bytes:
    at = raw.find(_MOMENT) + len(_MOMENT)
    return raw[at : raw.find(b'"', at)]


def _better(raw: bytes, best: float | None) -> float | None:
    """The lower of `best` and the validation loss in a whole line."""
    found = _VAL_LOSS.search(raw)
    if found is None:
        return best
    loss = float(found[1])
    return loss if (best is None or loss < best) and check_line(raw) is not None else best


def scalars_of(record: dict[str, Any]) -> dict[str, float]:
    """Losses and figures of an epoch or end record."""
    found = {}
    for name, value in record.items():
        if name in _FIGURES or name.endswith("_loss"):
            number = as_number(value)
            if number is not None:
                found[name] = number
    return found


def metrics_of(record: dict[str, Any]) -> dict[str, float]:
    """Its metrics that are numbers."""
    given = record.get("metrics")
    if not isinstance(given, dict):
        return {}
    found = {name: as_number(value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def _tested(name: str) -> str:
    return name if name.startswith("test_") else f"test_{name}"


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
