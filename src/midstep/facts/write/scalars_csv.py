"""Derives `scalars.csv`, a wide table of the epoch records, from the events."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from midstep.core.files.storage import replace_bytes
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import SCHEMA_VERSION
from midstep.facts.format.paths import events_path, facts_dir
from midstep.facts.format.scanners import EventsScanner

COLUMNS = (
    "epoch",
    "split",
    "train_loss",
    "val_loss",
    "epoch_time_s",
    "throughput",
    "max_memory_mib",
)
EPOCH_MOMENTS = frozenset({Moment.EPOCH_END, Moment.VALIDATION_END, Moment.TEST_END})


def epoch_records(run_dir: str | Path) -> list[dict[str, Any]]:
    """Epoch records in order, one for each epoch, moment and split.

    Records of the same timeline are merged; a record of a higher timeline replaces them.
    """
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in EventsScanner(events_path(run_dir, 0, 0)).read():
        if line.version != SCHEMA_VERSION:
            continue
        record = line.record()
        if record.get("moment") not in EPOCH_MOMENTS:
            continue
        key = (record.get("epoch"), record["moment"], record.get("split"))
        known = best.get(key)
        if known is None or record["timeline"] > known["timeline"]:
            best[key] = record
        elif record["timeline"] == known["timeline"]:
            metrics = {**_metrics(known), **_metrics(record)}
            best[key] = {**known, **record, "metrics": metrics}
    return sorted(best.values(), key=_order)


def _order(record: dict[str, Any]) -> tuple[float, int]:
    epoch = record.get("epoch")
    return (epoch if isinstance(epoch, int | float) else -1, record["seq"])


def write_scalars_csv(run_dir: str | Path) -> Path:
    """Derive `facts/scalars.csv` from the events and replace it as a whole."""
    records = epoch_records(run_dir)
    names = sorted({str(name) for record in records for name in _metrics(record)})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*COLUMNS, *(f"metric_{name}" for name in names)])
    for record in records:
        metrics = _metrics(record)
        cells = [record.get(column) for column in COLUMNS]
        table.writerow([csv_cell(value) for value in [*cells, *map(metrics.get, names)]])
    path = facts_dir(run_dir) / "scalars.csv"
    # No fsync: it is derived, and can be derived again after a power cut.
    replace_bytes(path, text.getvalue().encode(), durable=False)
    return path


def _metrics(record: dict[str, Any]) -> dict[str, Any]:
    metrics = record.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def csv_cell(value: Any) -> Any:
    """The value; text that a spreadsheet would run as a formula gets a leading quote.

    >>> csv_cell("=1+1"), csv_cell(-1.5)
    ("'=1+1", -1.5)
    """
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return value if value == "-Infinity" else f"'{value}"
    return value
