"""What the readers of `midstep.facts` say about a golden run, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from midstep.facts import (
    EventRecord,
    FactsReader,
    FactsTail,
    HeartbeatWatch,
    RunIndex,
    SeriesStore,
    StepRows,
    discover_runs,
    end_state,
    last_attempt,
)

POINTS = 4
"""Few enough that series are thinned to buckets."""


def facts_of(run_dir: Path) -> dict[str, Any]:
    """Everything that can be asked of the facts of one run."""
    reader = FactsReader(run_dir)
    store = SeriesStore(run_dir)
    store.refresh()
    rewinds = reader.rewinds()
    timelines = range(max((each.timeline for each in rewinds), default=0) + 1)
    return {
        "header": reader.header(),
        "events": reader.events(),
        "events after 10, two": [each["seq"] for each in reader.events(after_seq=10, limit=2)],
        "names": reader.names,
        "series": _all(reader.series()),
        "series by timeline": [_all(reader.series(["loss"], timeline=t)) for t in timelines],
        "buckets": _series(store.series("loss", points=POINTS)),
        "part": _series(store.series("loss", start=2, stop=5)),
        "rewinds": [asdict(each) for each in rewinds],
        "paths": [_limits(reader.path_of(each).limits) for each in timelines],
        "last_seq": reader.last_seq,
        "problems": reader.problems,
        "last_attempt": last_attempt(run_dir),
        "end": _end(run_dir),
        "tail": _tail(FactsTail(run_dir).poll()),
    }


def _all(series: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _series(each) for name, each in series.items()}


def _series(series: Any) -> dict[str, Any]:
    return {
        "step": series.step.tolist(),
        "low": _numbers(series.low),
        "high": _numbers(series.high),
        "exact": series.exact,
        "count": series.count,
    }


def _numbers(values: Any) -> list[Any]:
    """Numbers as JSON can hold them."""
    return [each if np.isfinite(each) else str(each) for each in np.asarray(values).tolist()]


def _limits(limits: Mapping[int, int | None]) -> dict[str, int | None]:
    return {str(timeline): last for timeline, last in limits.items()}


def _end(run_dir: Path) -> dict[str, Any]:
    end = end_state(run_dir, watch=HeartbeatWatch())
    return {"state": end.state, "reason": end.reason}


def _tail(records: Iterable[EventRecord | StepRows]) -> list[dict[str, Any]]:
    """Records in the order they were written."""
    found = []
    for each in records:
        if isinstance(each, StepRows):
            found.append(
                {
                    "step": np.asarray(each.step).tolist(),
                    "timeline": each.timeline,
                    "last_seq": each.last_seq,
                    "columns": {name: _numbers(values) for name, values in each.columns.items()},
                }
            )
        else:
            found.append({"event": each.seq})
    return found


def index_of(root: Path) -> dict[str, Any]:
    """Ends, rows, histories and curves of all runs below a folder, by the directory of each."""
    # A lost run is left out: its row says "running" for ten seconds from the second look on.
    index = RunIndex(root, "memory")
    rows: dict[str, Any] = {}
    for _ in range(100):  # a busy machine counts the bytes of all runs in several refreshes
        index.refresh()
        rows = {row.directory: row for row in index.rows().rows if row.directory != "lost"}
        if all(row.bytes is not None for row in rows.values()):
            break
    histories = index.histories()
    loss = index.curves([row.id for row in rows.values()], "loss", x="time", points=POINTS)
    epochs = index.curves([row.id for row in rows.values()], "val_loss", x="epoch")
    return {
        "ends": {each.name: _end(each) for each in sorted(root.iterdir())},
        "folders": {
            each.relative_to(root).as_posix(): True for each in discover_runs(sweep_dir=root)
        },
        "rows": {directory: _row(row) for directory, row in sorted(rows.items())},
        "histories": {d: _history(histories[row.id]) for d, row in sorted(rows.items())},
        "loss over time": {d: _curve(loss.get(row.id)) for d, row in sorted(rows.items())},
        "val_loss over epochs": {d: _curve(epochs.get(row.id)) for d, row in sorted(rows.items())},
    }


def _row(row: Any) -> dict[str, Any]:
    """The row as it is sent; that of a live run was updated now."""
    return {**row.as_wire(), **({"updated_at": None} if row.live else {})}


def _history(history: Any) -> dict[str, Any]:
    points = {name: [_numbers(part) for part in history.points(name)] for name in history.names}
    return {"ends": [list(each) for each in history.ends()], "points": points}


def _curve(curve: Any) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "x": _numbers(curve.x),
        "low": _numbers(curve.low),
        "high": _numbers(curve.high),
        "exact": curve.exact,
        "count": curve.count,
    }
