"""`load_runs`: runs as DataFrames, one row for each run and one frame of epochs for each run."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import MidstepError, MissingExtraError
from midstep.core.files.untrusted_files import FILE_ERRORS
from midstep.facts.format.version_one import read_version_one_csv
from midstep.facts.index.epoch_history import FIXED, EpochHistory
from midstep.facts.index.event_summary import flat_config, hash_config
from midstep.facts.index.hydra_files import HydraFiles, read_hydra_files
from midstep.facts.index.run_row import RunRow, row_from_summary, row_with_state
from midstep.facts.index.run_summary import RunSummary
from midstep.facts.liveness.run_liveness import HeartbeatWatch

if TYPE_CHECKING:
    import pandas

    Frames = tuple[pandas.DataFrame, dict[str, pandas.DataFrame], list[str]]

MOST_KEPT = 4_096
"""Runs whose summaries are kept in memory, so that loading them again reads what is new."""
COLUMNS = (
    *("run_dir", "run_id", "name", "state", "encoder", "tokenizer", "decoder", "loop", "seed"),
    *("latent_dim", "codebook_size", "dataset", "config_hash", "git_commit", "epochs"),
    *("best_epoch", "best_val_loss", "final_train_loss", "final_val_loss", "test_loss"),
    *("started_at", "total_time_s", "mean_epoch_time_s", "throughput", "max_memory_mib"),
)
"""Columns that every frame of runs has; `metric_*` and `override.*` follow."""
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "encoder": ("phase1.encoder.name", "phase1.encoder", "encoder"),
    "tokenizer": ("phase1.latent_space.name", "phase1.latent_space", "tokenizer"),
    "decoder": ("phase1.decoder.name", "phase1.decoder", "decoder"),
    "loop": ("loop.name", "loop", "recipe"),
    "seed": ("phase1.trainer.seed", "trainer.seed", "seed"),
    "latent_dim": ("phase1.latent_space.latent_dim", "latent_dim"),
    "codebook_size": ("phase1.latent_space.codebook_size", "codebook_size"),
    "dataset": ("data.name", "dataset", "data"),
}
"""For each column the settings it is read from; the first that is set counts."""
_PLAIN = frozenset({*FIXED, "epoch_time_s", "throughput", "max_memory_mib"})


@dataclass(frozen=True)
class _Epochs:
    """The epochs of a run, and what its row says of them."""

    names: list[str]
    cells: Any
    """An array with one row for each epoch, one column for each name."""
    values: Mapping[str, Any]

    @classmethod
    def from_history(cls, history: EpochHistory) -> _Epochs:
        names, cells = history.table()
        array = np.array(cells, np.float64).reshape(-1, len(names))
        final = {_column(name): history.points(name)[2][-1] for name in history.names}
        seconds = history.points("epoch_time_s")[2]
        final.pop("epoch_time_s", None)
        values = {
            "epochs": len(history),
            **_best(history),
            "final_train_loss": final.pop("train_loss", None),
            "final_val_loss": final.pop("val_loss", None),
            "mean_epoch_time_s": sum(seconds) / len(seconds) if seconds else None,
            **final,
        }
        return cls([*map(_column, names)], array, values)


@dataclass
class _KnownRun:
    """A run that was loaded before."""

    summary: RunSummary = field(default_factory=RunSummary)
    hydra: HydraFiles = field(default_factory=HydraFiles)
    hydra_stamp: tuple[tuple[int, int], ...] = ()
    epochs: _Epochs | None = None
    """None until they are read, and when the facts have grown."""


_known: OrderedDict[str, _KnownRun] = OrderedDict()
_lock = threading.Lock()
_watch = HeartbeatWatch()


def load_runs(run_dirs: Iterable[str | Path], require_complete: bool = True) -> Frames:
    """Runs as DataFrames.

    Args:
        run_dirs: run directories, for example of `discover_runs`.
        require_complete: leave out runs that have not finished.

    Returns:
        One row for each run; by run directory one row for each epoch; the run directories in order.
        Runs that are left out are in `attrs["excluded"]` of the first, as a list of `run_dir` and
        `reason`.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     _ = facts.event("on_epoch_end", epoch=0, train_loss=0.5)
    ...     _ = facts.event("on_train_end", status="finished")
    >>> runs, epochs, order = load_runs([folder])
    >>> runs.final_train_loss.tolist(), len(epochs[order[0]])
    ([0.5], 1)
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError.for_library("pandas", "runs") from None
    rows: list[dict[str, Any]] = []
    per_epoch: dict[str, pandas.DataFrame] = {}
    excluded: list[dict[str, str]] = []
    for run_dir in dict.fromkeys(map(str, run_dirs)):
        try:
            row, epochs = _load_run(Path(run_dir), require_complete=require_complete)
        except (MidstepError, *FILE_ERRORS) as error:
            excluded.append({"run_dir": run_dir, "reason": str(error)})
            continue
        if isinstance(row, str):
            excluded.append({"run_dir": run_dir, "reason": row})
            continue
        rows.append(row)
        per_epoch[run_dir] = _epoch_frame(epochs)
    runs_df = pd.DataFrame.from_records(rows, columns=_columns(rows))
    runs_df.attrs["excluded"] = excluded
    return runs_df, per_epoch, list(per_epoch)


def _load_run(folder: Path, *, require_complete: bool) -> tuple[dict[str, Any] | str, _Epochs]:
    """The row of a run, or the reason why it is left out; and its epochs."""
    with _lock:
        known = _refresh(folder)
        summary = known.summary
        row = row_with_state(row_from_summary(folder.name, summary), folder, summary, _watch)
        epochs = known.epochs or _read_epochs(folder, summary)
        known.epochs = epochs
    reason = _why_left_out(row, epochs, require_complete=require_complete)
    return reason or _row(folder, row, known, epochs), epochs


def _read_epochs(folder: Path, summary: RunSummary) -> _Epochs:
    history = summary.epochs(str(folder))
    return _Epochs.from_history(history if len(history) else _csv_history(folder))


def _refresh(folder: Path) -> _KnownRun:
    """What is known of a run, with what is new on the disk."""
    key = str(folder.absolute())
    known = _known.pop(key, None) or _KnownRun()
    if known.summary.update(str(folder)):
        known.epochs = None
    stamp = _hydra_stamp(folder)
    if stamp != known.hydra_stamp:
        known.hydra = read_hydra_files(folder)
        known.hydra_stamp = stamp
    _known[key] = known
    while len(_known) > MOST_KEPT:
        _known.popitem(last=False)
    return known


def _hydra_stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    stamps = []
    for name in ("config.yaml", "overrides.yaml"):
        try:
            status = (folder / ".hydra" / name).lstat()
            stamps.append((status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append((0, 0))
    return tuple(stamps) if any(map(any, stamps)) else ()


def _why_left_out(row: RunRow, epochs: _Epochs, *, require_complete: bool) -> str | None:
    if row.state == "damaged":
        return f"damaged: {row.why}"
    if require_complete and row.state != "finished":
        return f"it is {row.state}{'' if row.why is None else f' ({row.why})'}, not finished"
    return None if len(epochs.cells) else "it has recorded no epoch"


def _csv_history(folder: Path) -> EpochHistory:
    """The epochs in a `scalars.csv` of version 1, for a run whose events have none."""
    history = EpochHistory()
    for record in read_version_one_csv(folder):
        values = {name: value for name, value in record.items() if isinstance(value, float)}
        fixed = {"epoch": record["epoch"], "timeline": 0, "wall": 0.0}
        history.add(fixed, {**values, **record["metrics"]})
    return history


def _row(folder: Path, row: RunRow, known: _KnownRun, epochs: _Epochs) -> dict[str, Any]:
    """One row of the frame of runs."""
    events, hydra = known.summary.events, known.hydra
    config = dict(events.config) or flat_config(hydra.config)
    digest = events.header.get("config_hash")
    if digest is None and hydra.config:
        digest = hash_config(hydra.config)
    settings = {name: _first(config, keys) for name, keys in _SETTINGS.items()}
    if row.seed is not None:
        settings["seed"] = row.seed
    test = events.last.get("on_test_end", {}).get("values", {})
    return {
        "run_dir": str(folder),
        "run_id": row.id,
        "name": row.name,
        "state": row.state,
        **settings,
        "config_hash": digest,
        "git_commit": events.header.get("git_commit"),
        "started_at": row.started_at,
        "total_time_s": _total_time(row, known),
        **epochs.values,
        **{_column(name): value for name, value in test.items() if name != "epoch_time_s"},
        **{f"override.{key}": value for key, value in hydra.overrides.items()},
    }


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((config[key] for key in keys if config.get(key) is not None), None)


def _best(epochs: EpochHistory) -> dict[str, float | int | None]:
    """The epoch with the lowest validation loss; NaN is never the lowest."""
    losses = epochs.by_epoch("val_loss")
    finite = [(loss, epoch) for epoch, loss in losses.items() if not math.isnan(loss)]
    loss, epoch = min(finite, default=(None, None))
    return {"best_epoch": epoch, "best_val_loss": loss}


def _total_time(row: RunRow, known: _KnownRun) -> float | None:
    recorded = (known.summary.events.end or {}).get("total_time_s")
    if recorded is not None:
        return float(recorded)
    if row.started_at is None or row.ended_at is None:
        return None
    return row.ended_at - row.started_at


def _column(name: str) -> str:
    """The name of a column: a metric gets a prefix, so that it cannot hide another column."""
    return name if name in _PLAIN or name.endswith("_loss") else f"metric_{name}"


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    further = {name: None for row in rows for name in row if name not in COLUMNS}
    overrides = sorted(name for name in further if name.startswith("override."))
    return [*COLUMNS, *sorted(further.keys() - set(overrides)), *overrides]


def _epoch_frame(epochs: _Epochs) -> pandas.DataFrame:
    import pandas as pd

    # One block of floats: a frame of many columns built one by one takes ten times as long.
    frame = pd.DataFrame(epochs.cells.copy(), columns=epochs.names)
    frame["epoch"] = frame["epoch"].astype(np.int64)
    return frame
