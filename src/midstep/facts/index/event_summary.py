"""`EventSummary`: what a list of runs shows of the events of one run.

A list of a thousand runs needs the starts, the ends and the last epoch of each, so only these lines
are parsed. The summary depends on the file alone, not on how often it was read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import (
    SCHEMA_VERSION,
    EventLine,
    check_line,
    parse_record,
)
from midstep.facts.format.scanners import EventsScanner, read_new_bytes
from midstep.facts.index.epoch_history import EpochHistory, as_number

Setting = float | int | str | bool | None
MOST_SETTINGS = 200
SETTING_CHARACTERS = 500
REASON_CHARACTERS = 1_000

# Moments and losses are found by bytes and patterns: parsing all lines of a thousand runs as JSON
# would take most of the time of a list.
_MOMENT = b',"moment":"'
_EPOCHS = frozenset({Moment.EPOCH_END.encode(), Moment.VALIDATION_END.encode()})
_SKIPPED = frozenset({Moment.STEP.encode(), Moment.INTERVENTION.encode()})
"""Moments that a list does not show; among the interventions only rewinds count."""
_REWIND = b',"kind":"rewind"'
_NAMES_IN_HEADER = ("name", "host", "device", "recipe")
_FIGURES = frozenset({"epoch_time_s", "throughput", "max_memory_mib"})
_PREFIX = f'{{"schema_version":{SCHEMA_VERSION},"seq":'.encode()
_HEADS = re.compile(
    rb'^\{"schema_version":%d,"seq":\d+,"attempt":\d+,"rank":\d+,"wall":[^,\n]+,"mono":[^,\n]+,'
    rb'"moment":"(\w+)","run_id":"' % SCHEMA_VERSION,
    re.MULTILINE,
)
"""Finds the moment of each line."""
_VAL_LOSS = re.compile(rb',"val_loss":(-?[0-9][0-9.eE+-]*)')


@dataclass
class EventSummary:
    """Plain values only, since it is stored as JSON."""

    offset: int = 0
    """File offset after the last record that was read."""
    records: int = 0
    damages: int = 0
    refused: str | None = None
    """Why records were left out: they have an unknown version."""
    run_id: str | None = None
    attempt: int = 0
    timeline: int = 0
    seq: int = 0
    wall: float | None = None
    started_at: float | None = None
    """When the first attempt began."""
    header: dict[str, Any] = field(default_factory=dict)
    """Name, host, device, recipe, seed, total_steps, config_hash and git_commit of the last start
    record."""
    config: dict[str, Any] = field(default_factory=dict)
    """The settings in the last start record, flat."""
    end: dict[str, Any] | None = None
    """The end record after the last start: moment, status, reason, wall, total_time_s."""
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each moment the last record: seq, step, epoch and values."""
    best_val_loss: float | None = None

    def read(self, path: Path) -> None:
        """Read what is new in the file."""
        data = read_new_bytes(path, self.offset)
        if data is None or not self._skim(data[: data.rfind(b"\n") + 1]):
            self._read_carefully(path)

    def _skim(self, data: bytes) -> bool:
        """Parse and check the lines that a list shows; False if a line has another form.

        The lines in between are neither parsed nor checked. So the first list of a thousand runs
        takes 0.76 s; the bar is 1 s, and checking every line is estimated to take longer.
        """
        if data.count(b"\n") != data.count(_PREFIX):  # before the lines are put into a list
            return False
        lines = data.split(b"\n")[:-1]
        moments: list[bytes] = _HEADS.findall(data)
        # Each line must have one head of our own form. Two records in one line, or a damaged line,
        # make these numbers differ.
        if len(moments) != len(lines):
            return False
        epochs = [index for index, moment in enumerate(moments) if moment in _EPOCHS]
        newest = {moments[index]: index for index in epochs}
        has_rewind = _REWIND in data  # searched once in all bytes: most runs have none
        chosen = [
            index
            for index, moment in enumerate(moments)
            if moment not in (_EPOCHS | _SKIPPED)
            or (has_rewind and moment in _SKIPPED and _REWIND in lines[index])
        ]
        shown = [lines[index] for index in [*chosen, *newest.values()]]
        if any(check_line(raw) is None for raw in [*shown, *lines[-1:]]):
            return False
        for record in [parse_record(raw) for raw in shown]:
            self._add(record)
        if lines:
            self._note_position(parse_record(lines[-1]))
        epoch_loss = _best_val_loss(lines[index] for index in epochs)
        self.best_val_loss = _lowest(self.best_val_loss, epoch_loss)
        self.records += len(lines)
        self.offset += len(data)
        return True

    def _read_carefully(self, path: Path) -> None:
        """Check every line, and find whole records in damaged lines."""
        scanner = EventsScanner(path, offset=self.offset)
        newest: dict[bytes, bytes] = {}
        last: EventLine | None = None
        for line in scanner.read():
            self.records += 1
            if line.version != SCHEMA_VERSION:
                self.refused = f"{path.name} has records of schema version {line.version}"
                continue
            last = line
            moment = _moment(line.raw)
            if moment in _EPOCHS:
                newest[moment] = line.raw
                self.best_val_loss = _lowest(self.best_val_loss, _val_loss(line.raw))
            elif moment not in _SKIPPED or _REWIND in line.raw:
                self._add(line.record())
        # Of the epochs only the last counts, so that the result does not depend on how often the
        # file was read.
        for raw in newest.values():
            self._add(parse_record(raw))
        if last is not None:
            self._note_position(last.record())
        self.offset = scanner.offset
        self.damages += len(scanner.damages)

    def _note_position(self, record: dict[str, Any]) -> None:
        """Remember the last record; numbers, timelines and attempts never decrease."""
        self.seq, self.wall = record["seq"], record["wall"]
        self.run_id = str(record["run_id"])
        self.attempt, self.timeline = record["attempt"], record["timeline"]

    def _add(self, record: dict[str, Any]) -> None:
        moment = record["moment"]
        values = epoch_values(record)
        if moment == Moment.TEST_END:
            # A test and a validation may both record an accuracy; the list shows them side by side.
            values = {f"test_{name.removeprefix('test_')}": values[name] for name in values}
        if moment == Moment.START:
            self._start(record)
        elif moment in (Moment.TRAIN_END, Moment.EXCEPTION):
            self._end(record)
        self.last[moment] = {
            "seq": record["seq"],
            "step": _as_int(record.get("step")),
            "epoch": _as_int(record.get("epoch")),
            "values": values,
        }

    def _start(self, record: dict[str, Any]) -> None:
        if self.started_at is None:
            self.started_at = record["wall"]
        self.end = None
        words = {
            name: record[name] for name in _NAMES_IN_HEADER if isinstance(record.get(name), str)
        }
        numbers = {name: _as_int(record.get(name)) for name in ("seed", "total_steps")}
        self.header = {**words, **numbers, **_provenance(record)}
        self.config = flat_config(record.get("config"))

    def _end(self, record: dict[str, Any]) -> None:
        reason = record.get("error") or record.get("reason") or record.get("message")
        self.end = {
            "moment": record["moment"],
            "status": record.get("status"),
            "reason": None if reason is None else str(reason)[:REASON_CHARACTERS],
            "wall": record["wall"],
            "total_time_s": as_number(record.get("total_time_s")),
        }

    def values(self) -> dict[str, tuple[int, float]]:
        """(seq, value) of every name in the last records; the later record counts."""
        values: dict[str, tuple[int, float]] = {}
        for record in sorted(self.last.values(), key=lambda each: int(each["seq"])):
            values |= {name: (record["seq"], value) for name, value in record["values"].items()}
        return values

    def newest(self, what: str) -> tuple[int, int] | None:
        """(seq, number) of the last record that names a `step` or an `epoch`."""
        numbers = [
            (each["seq"], each[what]) for each in self.last.values() if each[what] is not None
        ]
        return max(numbers, default=None)


def read_history(path: Path, history: EpochHistory, offset: int) -> int:
    """Add the epoch records after `offset` to `history`; returns the offset after the last line."""
    scanner = EventsScanner(path, offset=offset)
    for line in scanner.read():
        if line.version == SCHEMA_VERSION and _moment(line.raw) in _EPOCHS:
            record = line.record()
            history.add(record, epoch_values(record))
    return scanner.offset


def _best_val_loss(epoch_lines: Iterable[bytes]) -> float | None:
    """The lowest validation loss in lines whose CRC fits."""
    losses = [(loss, raw) for raw in epoch_lines if (loss := _val_loss(raw)) is not None]
    # From the lowest up, so that a CRC is computed for one line, not for all of them.
    return next((loss for loss, raw in sorted(losses) if check_line(raw) is not None), None)


def _moment(raw: bytes) -> bytes:
    at = raw.find(_MOMENT) + len(_MOMENT)
    return raw[at : raw.find(b'"', at)]


def _val_loss(raw: bytes) -> float | None:
    match = _VAL_LOSS.search(raw)
    try:
        return None if match is None else float(match[1])
    except ValueError:  # such as `1.2.3`: another program made the line
        return None


def _lowest(*losses: float | None) -> float | None:
    return min((loss for loss in losses if loss is not None), default=None)


def epoch_values(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of an epoch or end record: losses, times, throughput, memory and metrics."""
    metrics = record.get("metrics")
    given = [
        *(item for item in record.items() if item[0] in _FIGURES or item[0].endswith("_loss")),
        *(metrics.items() if isinstance(metrics, dict) else ()),
    ]
    return {name: number for name, value in given if (number := as_number(value)) is not None}


def _provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """A hash of the whole config, and the commit, as far as the record has them."""
    config, git = record.get("config"), record.get("git")
    provenance = {}
    if isinstance(config, dict) and config:
        provenance["config_hash"] = hash_config(config)
    if isinstance(git, dict) and isinstance(git.get("commit"), str):
        provenance["git_commit"] = git["commit"]
    return provenance


def hash_config(config: Mapping[str, Any]) -> str:
    """A hash of a config that does not depend on the order of its keys.

    >>> hash_config({"a": 1, "b": 2}) == hash_config({"b": 2, "a": 1})
    True
    """
    text = json.dumps(strict_json.plain(config), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def flat_config(config: Any) -> dict[str, Setting]:
    """Nested settings with dotted names: lists as JSON, long texts cut, at most 200 settings.

    >>> flat_config({"model": {"hidden": 64, "sizes": [1, 2]}, "lr": 0.1})
    {'model.hidden': 64, 'model.sizes': '[1,2]', 'lr': 0.1}
    """
    settings: dict[str, Setting] = {}
    for name, value in _leaves("", config if isinstance(config, Mapping) else {}):
        if len(settings) >= MOST_SETTINGS:
            break
        settings[name] = value
    return settings


def _leaves(prefix: str, config: Mapping[str, Any]) -> Iterator[tuple[str, Setting]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(f"{name}.", value)
        elif value is None or isinstance(value, bool | int | float):
            yield name, value
        else:
            text = value if isinstance(value, str) else strict_json.dumps(value)
            yield name, text[:SETTING_CHARACTERS]


def _as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
