"""The row of a run, the slow way: every record read afresh, nothing remembered."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from midstep.core.errors import MidstepError
from midstep.facts import EventRecord, FactsReader, FactsTail, StepRows, end_state
from midstep.facts.index.labels import read_labels

LISTED = ("on_start", "on_epoch_end", "on_validation_end", "on_test_end")
ENDS = ("on_train_end", "on_exception")
SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def slow_row(root: Path, directory: str) -> dict[str, Any]:
    """What the index should say of a run, but for what depends on clocks."""
    folder = root / directory
    labels = read_labels(folder)
    row: dict[str, Any] = {
        "directory": directory,
        "tags": list(labels.tags),
        "note": labels.note,
        "bytes": sum(
            (Path(at) / name).lstat().st_size for at, _, names in os.walk(folder) for name in names
        ),
    }
    try:
        events = FactsReader(folder).events()
        records = _records(folder)
    except MidstepError:
        return {**row, "state": "damaged"}
    return {**row, **_of_events(events), **_of_records(events, records), **_state(folder, events)}


def _records(folder: Path) -> list[EventRecord | StepRows]:
    return FactsTail(folder).poll()


def _state(folder: Path, events: list[dict[str, Any]]) -> dict[str, Any]:
    path = folder / "facts" / "events.jsonl"
    if not events and path.exists() and b"\n" in path.read_bytes():
        return {"state": "damaged"}
    return {"state": end_state(folder).state}


def _of_events(events: list[dict[str, Any]]) -> dict[str, Any]:
    starts = [event for event in events if event["moment"] == "on_start"]
    header = starts[-1] if starts else {}
    ends = [
        event for event in events if event["moment"] in ENDS and event["seq"] > header.get("seq", 0)
    ]
    return {
        "id": events[-1]["run_id"] if events else None,
        "name": header.get("name"),
        "seed": header.get("seed"),
        "config": header.get("config") or {},
        "started_at": starts[0]["wall"] if starts else None,
        "ended_at": ends[-1]["wall"] if ends else None,
        "attempt": events[-1]["attempt"] if events else 0,
    }


def _of_records(
    events: list[dict[str, Any]], records: list[EventRecord | StepRows]
) -> dict[str, Any]:
    rows = [each for each in records if isinstance(each, StepRows)]
    last = _last_of_each(events)
    steps = [(each["seq"], each["step"]) for each in last if isinstance(each.get("step"), int)]
    steps += [(each.last_seq, int(each.step[-1])) for each in rows[-1:]]
    epochs = [(each["seq"], each["epoch"]) for each in last if isinstance(each.get("epoch"), int)]
    timelines = [event["timeline"] for event in events] + [each.timeline for each in rows]
    return {
        "step": max(steps, default=(0, None))[1],
        "epoch": max(epochs, default=(0, None))[1],
        "timeline": max(timelines, default=0),
        "scalars": sorted({name for each in rows for name in each.columns}),
        "summary": _summary(events, last, rows),
    }


def _last_of_each(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each moment that a list looks at."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        is_rewind = event["moment"] == "on_intervention" and event.get("kind") == "rewind"
        if event["moment"] in (*LISTED, *ENDS) or is_rewind:
            found[event["moment"]] = event
    return list(found.values())


def _summary(
    events: list[dict[str, Any]], last: list[dict[str, Any]], rows: list[StepRows]
) -> dict[str, float]:
    found: dict[str, tuple[int, float]] = {}
    for each in last:
        for name, value in _values(each).items():
            if name not in found or found[name][0] < each["seq"]:
                found[name] = (each["seq"], value)
    for each in rows:
        for name, column in each.columns.items():
            if name not in found or found[name][0] < each.last_seq:
                found[name] = (each.last_seq, float(column[-1]))
    losses = [
        event["val_loss"]
        for event in events
        if event["moment"] in ("on_epoch_end", "on_validation_end")
        and isinstance(event.get("val_loss"), int | float)
    ]
    values = {name: value for name, (_, value) in found.items()}
    return {**values, **({"best_val_loss": min(losses)} if losses else {})}


def _values(event: dict[str, Any]) -> dict[str, float]:
    given = {name: event[name] for name in event if name.endswith("_loss")}
    given |= event.get("metrics") or {}
    numbers = {name: SPELLED.get(value, value) for name, value in given.items()}
    before = "test_" if event["moment"] == "on_test_end" else ""
    return {
        name if name.startswith(before) else before + name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float)
    }
