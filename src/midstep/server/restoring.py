"""Builds the controller of a stored run: what its last step left in facts and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from midstep.control import Field, Level, Panel, Sort, Status
from midstep.control.shared import End
from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.server.stored_controller import StoredController
from midstep.server.stored_weights import StoredWeights

__all__ = ["restore"]

MOST_ARTIFACT_BYTES = 256 << 20
DEAD_BELOW, WINNER_ABOVE = 0.01, 0.05
"""Of a win rate; the same as in `midstep.models.competitive.health`, which needs torch."""
LABELS = {
    "win_rate": "Win rate",
    "grad_magnitude": "Gradient",
    "som_magnitude": "SOM",
    "feature_novelty": "Novelty",
    "velocity": "Velocity",
}
_ENDS = (Moment.TRAIN_END, Moment.EXCEPTION)


def restore(
    run_dir: Path, end: End, reason: str | None, lease: Mapping[str, Any]
) -> StoredController:
    """The controller of the run in `run_dir`, standing at its last step and closed.

    Args:
        run_dir: the run directory.
        end: how it ended.
        reason: why, in one line.
        lease: of a run without an end on record: it may know more than the facts.
    """
    reader = FactsReader(run_dir)
    events = reader.events()
    health = _last_health(events)
    columns = {} if health is None else _columns(health)
    made = StoredController(StoredWeights(run_dir), columns)
    _recall(made, events)
    _describe(made, reader, events, lease)
    step = max(_last_step(reader, events), _whole(lease.get("step")) or 0)
    _stand_at(made, step, reader, columns, health)
    kept = _read_artifact(run_dir / "artifacts" / "trajectories.json")
    if kept is not None:
        made.put_trajectories(kept)
    made.close_as(end, reason)
    return made


def _recall(made: StoredController, events: Sequence[dict[str, Any]]) -> None:
    """Know the run's commands again; a record of another program may lack something."""
    for each in events:
        if each.get("kind") == "command":
            with suppress(KeyError, TypeError, ValueError):
                made.recall([each])


def _describe(
    made: StoredController, reader: FactsReader, events: Sequence[Any], lease: Mapping[str, Any]
) -> None:
    header = reader.header()
    config = _config(header)
    epochs = [each["epoch"] for each in (*events, lease) if isinstance(each.get("epoch"), int)]
    made.describe(
        total_steps=_first(
            header.get("total_steps"), lease.get("total_steps"), config.get("steps")
        ),
        epoch=epochs[-1] if epochs else None,
        total_epochs=_first(lease.get("total_epochs"), config.get("epochs")),
        lr=_last_value(reader, "lr"),
        timeline=max((each["timeline"] for each in events), default=0),
    )


def _stand_at(
    made: StoredController,
    step: int,
    reader: FactsReader,
    columns: Mapping[str, Any],
    health: Mapping[str, Any] | None,
) -> None:
    """Pass the last boundary, with what is shown of it."""
    if step < 1:
        return
    made.begin_step(step - 1)
    with made.viewer():
        loss = _last_value(reader, "loss")
        if loss is not None:
            made.log({"loss": loss})
        made.wait_if_paused()
        if columns and health is not None:
            made.show_step_data("features", dict(columns), panel=_table(columns))
            made.show_step_data("health", _summary(health), panel=Panel(kind="text"))


def _last_health(events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The last examination of all features, on the newest timeline."""
    found = [each for each in events if each.get("kind") == "feature_health"]
    return max(found, key=lambda each: (each["timeline"], each["seq"]), default=None)


def _columns(health: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of one number per feature, all of one length."""
    import numpy as np

    told = health.get("features")
    columns = {}
    for name, values in told.items() if isinstance(told, Mapping) else ():
        if isinstance(values, list) and values:
            columns[str(name)] = np.array([_number(value) for value in values], np.float64)
    rows = {len(column) for column in columns.values()}
    return columns if len(rows) == 1 else {}


def _table(columns: Mapping[str, Any]) -> Panel:
    shown = {name: Field(label=LABELS.get(name, name)) for name in columns}
    if "win_rate" not in columns:
        return Panel(kind="table", title="Metrics", fields=shown)
    levels = (
        Level(below=DEAD_BELOW, word="dead", tone="bad"),
        Level(above=WINNER_ABOVE, word="winner", tone="good"),
    )
    status = Status(field="win_rate", levels=levels, otherwise=Level(word="contender", tone="warn"))
    sort = Sort(field="win_rate", descending=True)
    return Panel(kind="table", title="Metrics", fields=shown, status=status, sort=sort)


def _summary(health: Mapping[str, Any]) -> str:
    metrics = health.get("metrics")
    told = metrics.items() if isinstance(metrics, Mapping) else ()
    lines = [f"examined after step {health.get('step')} on {health.get('samples')} samples"]
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in told)])


def _last_step(reader: FactsReader, events: Sequence[dict[str, Any]]) -> int:
    """Finished steps: as the end record says, else the last that was logged."""
    for each in reversed(events):
        if each["moment"] == Moment.START:
            break
        if each["moment"] in _ENDS and isinstance(each.get("step"), int):
            return int(each["step"])
    last = [series.step[-1] for series in reader.series().values() if len(series.step)]
    return max((int(step) for step in last), default=0)


def _last_value(reader: FactsReader, name: str) -> float | None:
    if name not in reader.names:
        return None
    series = reader.series([name])[name]
    return float(series.low[-1]) if len(series.low) else None


def _read_artifact(path: Path) -> Mapping[str, Any] | None:
    """What the run kept there; None where it is not ours, too long or damaged."""
    try:
        if path.is_symlink() or path.stat().st_size > MOST_ARTIFACT_BYTES:
            return None
        found = strict_json.loads(path.read_bytes())
    except (OSError, FormatError):
        return None
    return found if isinstance(found, dict) else None


def _config(header: Mapping[str, Any]) -> Mapping[str, Any]:
    found = header.get("config")
    return found if isinstance(found, Mapping) else {}


def _first(*values: Any) -> int | None:
    """The first that is a whole number."""
    return next((found for each in values if (found := _whole(each)) is not None), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
