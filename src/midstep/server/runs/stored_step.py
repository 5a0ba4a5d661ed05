"""The last step of a stored run: progress, feature table, commands and watched rows, from files."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from midstep.control import CommandRecord, Field, Level, Panel, Sort, Status, StepData
from midstep.control.watches.trajectory import Trajectory
from midstep.control.watches.watches import TrackedRows
from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.facts.read.stop_evidence import read_stops
from midstep.facts.read.timelines import find_rewinds
from midstep.models.competitive.settings import DEAD_BELOW, WINNER_ABOVE
from midstep.server.runs.kept_step import TRAJECTORIES, KeptStep, newest_step
from midstep.server.runs.stored_weights import StoredWeights

MOST_ARTIFACT_BYTES = 64 << 20
"""A larger file of trajectories is not read: parsed JSON takes several times its size in memory."""
MOST_COMMANDS = 10_000
"""The last commands of a run that are listed, as of a live one."""
# A `feature_health` record holds columns without labels, and `midstep.loops.bcl` alone writes such
# records. So a stored run, old ones too, needs here the labels that this loop gives while it runs.
# A column of another name is shown under its own.
LABELS = {
    "win_rate": "Win rate",
    "grad_magnitude": "Gradient",
    "som_magnitude": "SOM",
    "feature_novelty": "Novelty",
    "velocity": "Velocity",
}
ENDS = (Moment.TRAIN_END, Moment.EXCEPTION)
POINT_FIELDS = frozenset({"step", "weight_cos_to_init", "cos"})
"""Fields of a point that are not metrics."""


@dataclass(frozen=True, kw_only=True)
class StoredStep:
    """The last step of a run, as its files describe it."""

    step: int
    """Finished steps."""
    loss: float | None
    lr: float | None
    total_steps: int | None
    epoch: int | None
    total_epochs: int | None
    timeline: int
    step_data: StepData
    """The table of features and its summary; empty where the facts hold none."""
    features: Mapping[str, Any]
    """Columns of one number per feature, of the last `feature_health` record."""
    tracked: Sequence[TrackedRows]
    """Points of watched rows, the tensor that was chosen last first."""
    commands: Mapping[str, CommandRecord]
    """The commands by id, in their order."""
    weights: StoredWeights
    """The weights of the newest checkpoint."""
    kept: KeptStep | None
    """The newest stop of the present timeline that was kept."""
    diagnosis: Mapping[str, Any] | None = None
    """The last record of a diagnosis."""
    failure: Mapping[str, Any] | None = None
    """The record of the error that ended the last attempt."""

    @property
    def diagnosed_step(self) -> int | None:
        """The step of the last diagnosis."""
        return None if self.diagnosis is None else _integer(self.diagnosis.get("step"))

    @property
    def feature_rows(self) -> int:
        """How many rows the columns of features have."""
        return max((len(column) for column in self.features.values()), default=0)

    def weight_names(self) -> list[str]:
        """Tensors of the checkpoint; first those with as many rows as the columns of features."""
        weights, rows = self.weights, self.feature_rows
        names = weights.names
        return sorted(names, key=lambda name: weights.rows(name) != rows) if rows else names


def read_stored_step(run_dir: Path, lease: Mapping[str, Any]) -> StoredStep:
    """The last step of the run in `run_dir`.

    Args:
        run_dir: the run directory.
        lease: the lease of a run without an end record; it may hold a later step than the facts.
    """
    reader = FactsReader(run_dir)
    events = _LastEvents()
    for event in reader.each_event():
        events.add(event)
    header = reader.header()
    config = _mapping(header.get("config"))
    epoch = _integer(lease.get("epoch"))
    # A loop that logs every n steps is further than its last fact; the lease is a second old.
    step = max(_last_step(reader, events), _integer(lease.get("step")) or 0)
    kept = newest_step(read_stops(run_dir), events.timeline, find_rewinds(events.rewinds))
    health = events.health
    features = {} if health is None else _columns(health)
    return StoredStep(
        step=step,
        loss=_last_value(reader, "loss") if step else None,
        lr=_last_value(reader, "lr"),
        kept=kept,
        total_steps=_first_integer(
            header.get("total_steps"),
            lease.get("total_steps"),
            None if kept is None else kept.integer("total_steps"),
            config.get("steps"),
            step if events.is_finished else None,
        ),
        epoch=_first_integer(epoch, _epoch_of(kept, step), events.epoch),
        total_epochs=_first_integer(
            lease.get("total_epochs"),
            None if kept is None else kept.integer("total_epochs"),
            config.get("epochs"),
        ),
        timeline=events.timeline,
        step_data=_step_data(step, features, health),
        features=features,
        tracked=_read_tracked(run_dir / "artifacts" / "trajectories.json") or _kept_rows(kept),
        commands=events.commands,
        weights=StoredWeights(run_dir),
        diagnosis=events.diagnosis,
        failure=events.failure,
    )


def _epoch_of(kept: KeptStep | None, step: int) -> int | None:
    """The epoch that was kept with the last step."""
    return kept.integer("epoch") if kept is not None and kept.step == step else None


class _LastEvents:
    """What the last step needs of the events; a file of any size is read one record at a time."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.timeline = 0
        self.rewinds: list[dict[str, Any]] = []
        self.is_finished = False
        """Whether the last attempt reached its end by itself."""
        self.end_step: int | None = None
        """Finished steps of the end record of the last attempt."""
        self.health: dict[str, Any] | None = None
        """The last `feature_health` record of the newest timeline."""
        self.commands: dict[str, CommandRecord] = {}
        """The commands by id, in their order. Records that lack a field are skipped."""
        self.diagnosis: dict[str, Any] | None = None
        self.failure: dict[str, Any] | None = None
        self._now = time.monotonic()

    def add(self, event: dict[str, Any]) -> None:
        """Take what is needed of one more event."""
        self.timeline = max(self.timeline, event["timeline"])
        if _integer(event.get("epoch")) is not None:
            self.epoch = event["epoch"]
        if event.get("kind") == "diagnosis":
            self.diagnosis = event
        if event["moment"] == Moment.EXCEPTION:
            self.failure = event
        if event["moment"] == Moment.START:  # the end of an earlier attempt does not count
            self.end_step = self.failure = None
            self.is_finished = False
        elif event["moment"] in ENDS and _integer(event.get("step")) is not None:
            self.end_step = event["step"]
            self.is_finished = event.get("status") == "finished"
        if event.get("kind") == "rewind":
            self.rewinds.append(event)
        if event.get("kind") == "command":
            self._add_command(event)
        # After a rewind, records of older timelines describe steps that were rewound.
        elif event.get("kind") == "feature_health" and (
            self.health is None or event["timeline"] >= self.health["timeline"]
        ):
            self.health = event

    def _add_command(self, event: dict[str, Any]) -> None:
        with suppress(FormatError):
            record = CommandRecord.from_fact(event, now=self._now)
            self.commands.setdefault(record.command.id, record)
        if len(self.commands) > MOST_COMMANDS:
            del self.commands[next(iter(self.commands))]


def _last_step(reader: FactsReader, events: _LastEvents) -> int:
    """Finished steps: those of the end record, else the last step that was logged."""
    if events.end_step is not None:
        return events.end_step
    last = [series.step[-1] for series in reader.series().values() if len(series.step)]
    return max((int(step) for step in last), default=0)


def _last_value(reader: FactsReader, name: str) -> float | None:
    if name not in reader.names:
        return None
    series = reader.series([name])[name]
    return float(series.low[-1]) if len(series.low) else None


# -- the table of features ------------------------------------------------------------------------


def _columns(health: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of one number per feature; no columns when their lengths differ."""
    columns = {
        str(name): np.array([_number(value) for value in values], np.float64)
        for name, values in _mapping(health.get("features")).items()
        if isinstance(values, list) and values
    }
    lengths = {len(column) for column in columns.values()}
    return columns if len(lengths) == 1 else {}


def _step_data(
    step: int, features: Mapping[str, Any], health: Mapping[str, Any] | None
) -> StepData:
    """The feature table and its summary, as a live run shows them with its step data."""
    if step < 1 or health is None or not features:
        return StepData(step=0, values={})
    return StepData(
        step=step,
        values={"features": dict(features), "health": _summary(health)},
        panels={"features": _table(features), "health": Panel(kind="text")},
        additions=2,
    )


def _table(columns: Mapping[str, Any]) -> Panel:
    fields = {name: Field(label=LABELS.get(name, name)) for name in columns}
    if "win_rate" not in columns:
        return Panel(kind="table", title="Metrics", fields=fields)
    levels = (
        Level(below=DEAD_BELOW, word="dead", tone="bad"),
        Level(above=WINNER_ABOVE, word="winner", tone="good"),
    )
    status = Status(field="win_rate", levels=levels, otherwise=Level(word="contender", tone="warn"))
    sort = Sort(field="win_rate", descending=True)
    return Panel(kind="table", title="Metrics", fields=fields, status=status, sort=sort)


def _summary(health: Mapping[str, Any]) -> str:
    metrics = _mapping(health.get("metrics"))
    first = f"examined after step {health.get('step')} on {health.get('samples')} samples"
    return "\n".join([first, *(f"{name}: {value}" for name, value in metrics.items())])


# -- the points of watched rows -------------------------------------------------------------------


def _read_tracked(path: Path) -> list[TrackedRows]:
    """The points that the run saved; no points when the file is a link, too large or damaged."""
    try:
        with open_plain(path.parent, path.name) as file:
            if os.fstat(file.fileno()).st_size > MOST_ARTIFACT_BYTES:
                return []
            saved = _mapping(strict_json.loads(file.read()))
    except (OSError, FormatError):
        return []
    return _all_rows(saved)


def _all_rows(saved: Mapping[str, Any]) -> list[TrackedRows]:
    by_source = {str(saved.get("source") or ""): saved, **_mapping(saved.get("others"))}
    return [_tracked_rows(source, _mapping(each)) for source, each in by_source.items() if source]


def _kept_rows(kept: KeptStep | None) -> list[TrackedRows]:
    """The points that were kept with a stop, of a run that was killed before it saved all."""
    saved = None if kept is None else _mapping(kept.stop.read_json(TRAJECTORIES))
    return [] if not saved else _all_rows(saved)


def _tracked_rows(source: str, saved: Mapping[str, Any]) -> TrackedRows:
    """The points of one tensor; none of its rows is watched any more."""
    tracked = TrackedRows(source=source)
    for row, points in _mapping(saved.get("trajectories")).items():
        if str(row).isdecimal():
            tracked.rows[int(row)] = _trajectory("weight_cos_to_init", points)
    for pair, points in _mapping(saved.get("pairwise")).items():
        first, _, second = str(pair).partition(",")
        if first.isdecimal() and second.isdecimal():
            tracked.pairs[int(first), int(second)] = _trajectory("cos", points)
    return tracked


def _trajectory(name: str, points: Any) -> Trajectory:
    path = Trajectory(name)
    for point in points if isinstance(points, list) else []:
        if isinstance(point, Mapping) and isinstance(point.get("step"), int):
            metrics = {key: _number(each) for key, each in point.items() if key not in POINT_FIELDS}
            path.append(point["step"], _number(point.get(name)), metrics)
    return path


def copy_tracked(tracked: Sequence[TrackedRows], points: int, in_all: int) -> list[TrackedRows]:
    """Copies with at most the given numbers of points; one empty entry when nothing was watched.

    Args:
        tracked: the points to copy.
        points: most points of one series.
        in_all: most points over all series.
    """
    series = sum(len(each.rows) + len(each.pairs) for each in tracked)
    limit = max(2, min(points, in_all // max(series, 1)))
    return [_thinned(each, limit) for each in tracked] or [TrackedRows(source="")]


def _thinned(tracked: TrackedRows, points: int) -> TrackedRows:
    rows = {row: path.copy() for row, path in tracked.rows.items()}
    pairs = {pair: path.copy() for pair, path in tracked.pairs.items()}
    thinned = [path.thin(points) for path in (*rows.values(), *pairs.values())]
    return replace(tracked, rows=rows, pairs=pairs, exact=not any(thinned))


# -- values of records that another program may have changed --------------------------------------


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first_integer(*values: Any) -> int | None:
    numbers = (_integer(each) for each in values)
    return next((each for each in numbers if each is not None), None)


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float:
    """A number; NaN and the infinities are strings in strict JSON, which `float` reads too."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
