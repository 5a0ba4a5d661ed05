"""Functions that record one event at a time, for callers that have no `FactsWriter`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import SCHEMA_VERSION
from midstep.facts.format.paths import last_attempt
from midstep.facts.write.scalars_csv import epoch_records, write_scalars_csv
from midstep.facts.write.writer import FactsWriter, open_writer


def build_event_payload(
    moment: Moment | str,
    run_dir: str | Path,
    *,
    epoch: int | None = None,
    step: int | None = None,
    split: str | None = None,
    train_loss: float | None = None,
    val_loss: float | None = None,
    metrics: Mapping[str, Any] | None = None,
    histories: Mapping[str, Any] | None = None,
    cfg: Any = None,
    **further: Any,
) -> dict[str, Any]:
    """What happened, as one dict for plots and for `append_jsonl_event`.

    `histories` is for plots only. It is not written, since readers derive it from the records.
    """
    given = {
        "epoch": epoch,
        "step": step,
        "split": split,
        "train_loss": train_loss,
        "val_loss": val_loss,
        "metrics": dict(metrics) if metrics is not None else None,
        "histories": histories,
        "config": _plain_config(cfg),
        **further,
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "moment": str(Moment(moment)),
        "run_dir": str(run_dir),
        **{name: value for name, value in given.items() if value is not None},
    }


def _plain_config(cfg: Any) -> Any:
    if dataclasses.is_dataclass(cfg) and not isinstance(cfg, type):
        cfg = dataclasses.asdict(cfg)
    return None if cfg is None else strict_json.plain(cfg)


def append_jsonl_event(run_dir: str | Path, payload: Mapping[str, Any]) -> int:
    """Write a payload of `build_event_payload` as one event and return its number."""
    fields = {
        name: value
        for name, value in payload.items()
        if name not in {"schema_version", "moment", "run_dir", "histories"}
        and not name.startswith("history_")
    }
    with _writer(run_dir) as writer:
        return writer.event(payload["moment"], **fields)


def append_scalars_csv(
    run_dir: str | Path,
    *,
    epoch: int,
    split: str | None = None,
    metrics: Mapping[str, Any] | None = None,
    **scalars: Any,
) -> Path:
    """Update `scalars.csv`. Values that no event has yet are written as an event first."""
    given = {"epoch": epoch, "split": split, "metrics": dict(metrics or {}), **scalars}
    given = {name: value for name, value in given.items() if value not in (None, {})}
    # Compared in the form that records have on disk, where NaN is a string.
    wanted = strict_json.plain(given)
    if not any(_contains(record, wanted) for record in epoch_records(run_dir)):
        with _writer(run_dir) as writer:
            writer.event(Moment.EPOCH_END, **given)
    return write_scalars_csv(run_dir)


def _contains(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether `record` has all values in `wanted`; nested mappings are compared the same way."""
    return all(
        _contains(record.get(name) or {}, value)
        if isinstance(value, dict)
        else record.get(name) == value
        for name, value in wanted.items()
    )


@contextmanager
def _writer(run_dir: str | Path) -> Iterator[FactsWriter]:
    """The writer that this process has open for the run, or one for this block only."""
    writer = open_writer(run_dir)
    if writer is not None:
        yield writer
        return
    with FactsWriter(run_dir, attempt=max(1, last_attempt(run_dir))) as temporary:
        yield temporary
