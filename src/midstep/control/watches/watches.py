"""Reads the watched rows at each boundary, and answers readers on any thread.

A source is a function of the user. It is never called under the lock, because it may take long or
call the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from midstep.control.setting_checks import check_integer
from midstep.control.watches.tensor_rows import (
    find_tensor,
    row_cosines,
    row_metrics,
    tensor_names,
    unit_rows,
)
from midstep.control.watches.trajectory import EXACT_POINTS, Trajectory
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

log = logging.getLogger("midstep.control")
MAX_WATCHED = 64
"""Limit of rows that are watched at the same time; 64 rows have 2,016 pairs."""
MAX_KEPT_ROWS = 256
MAX_KEPT_PAIRS = 4096
"""Limits of series, including those of removed watches: below 1 GB with nine metrics a row."""
MAX_SEEN = 1024
"""Limit of keys of step data that are searched for matrices."""
Pair = tuple[int, int]


@dataclass(kw_only=True)
class TrackedRows:
    """One source: its watched rows, and the points of these and of formerly watched rows."""

    source: str
    watched: list[int] = field(default_factory=list)
    rows: dict[int, Trajectory] = field(default_factory=dict)
    pairs: dict[Pair, Trajectory] = field(default_factory=dict)
    """Trajectories of pairs of rows (a, b) with a < b."""
    starts: dict[int, Any] = field(default_factory=dict)
    """Unit vectors of the rows when their watch began; used by the training thread alone."""
    exact: bool = True
    """False for a copy that was thinned."""

    def add(
        self,
        step: int,
        rows: list[int],
        to_start: list[float],
        cosines: list[list[float]],
        metrics: Mapping[str, list[float]],
    ) -> None:
        """Add a point for each of `rows` and for each pair of them."""
        for position, row in enumerate(rows):
            path = self.rows.get(row) or self.rows.setdefault(row, Trajectory("weight_cos_to_init"))
            row_metrics = {name: values[position] for name, values in metrics.items()}
            path.append(step, to_start[position], row_metrics)
        positions = sorted((row, position) for position, row in enumerate(rows))
        for (a, i), (b, j) in combinations(positions, 2):
            pair = self.pairs.get((a, b)) or self.pairs.setdefault((a, b), Trajectory("cos"))
            pair.append(step, cosines[i][j])

    def describe(self) -> dict[str, Any]:
        """All points as JSON; the key of a pair is `a,b` with a < b."""
        return {
            "watched": list(self.watched),
            "trajectories": {str(row): path.points() for row, path in self.rows.items()},
            "pairwise": {f"{a},{b}": path.points() for (a, b), path in self.pairs.items()},
        }


class Watches:
    """The watches of a run: which rows are watched, and their points so far."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self.readers: dict[str, Callable[[], Any]] = {}
        """Functions that return the offered tensors, by name."""
        self.default_source: str | None = None
        self._chosen_source: str | None = None
        """The source of the last `add` or `replace`."""
        self._tracked: dict[str, TrackedRows] = {}
        """The watched rows, by source."""
        self.has_new_rows = False
        """Whether rows were added, or all points cleared, since the training thread read them."""
        self._searched_keys: set[str] = set()
        self._step_data_matrices: dict[str, None] = {}
        """Names of the matrices in the step data so far, in order; a dict as an ordered set."""

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self) -> None:
        """Store the current vectors of rows that are newly watched, as their starts."""
        if self.has_new_rows:
            for tracked in self._watched_sources():
                self._guarded(tracked, self._read)

    def record(self) -> None:
        """Add a point for every watched row whose tensor this step has."""
        self._note_matrices(self._state.captures.data.pushed)
        if self.active:
            for tracked in self._watched_sources():
                self._guarded(tracked, self._add_points)

    def _note_matrices(self, step_data: Mapping[str, Any]) -> None:
        """Remember which step data can be watched."""
        # Each key is searched once: a mapping may have a thousand entries.
        for key in [key for key in step_data if key not in self._searched_keys][:MAX_SEEN]:
            if len(self._searched_keys) < MAX_SEEN and len(self._step_data_matrices) < MAX_SEEN:
                self._searched_keys.add(key)
                # A new dict, because other threads read it without the lock.
                self._step_data_matrices = {
                    **self._step_data_matrices,
                    **dict.fromkeys(tensor_names(key, step_data[key])),
                }

    @property
    def active(self) -> bool:
        """Whether any row is watched. Read on the training thread, or under the lock."""
        return any(each.watched for each in self._tracked.values())

    def _watched_sources(self) -> list[TrackedRows]:
        with self._state.lock:
            # Reset before the rows are read: rows that are added meanwhile set it again.
            self.has_new_rows = False
            return [each for each in self._tracked.values() if each.watched]

    def _guarded(self, tracked: TrackedRows, work: Any) -> None:
        try:
            work(tracked)
        except Exception as error:
            # A function of the user: its watch ends, and training continues.
            source, state = tracked.source, self._state
            log.exception("watching %s raised and is off; training continues", source)
            with state.lock:
                self._drop(None, source)
                state.reason = f"Watching {source} stopped: {type(error).__name__}: {error}"
                state.refresh_flags()

    def _read(self, tracked: TrackedRows) -> tuple[list[int], Any, int] | None:
        """The watched rows that exist, as unit vectors, and the number of rows of the tensor."""
        tensor = self._tensor(tracked.source, self._state.captures.data.pushed)
        if tensor is None:  # step data that this step did not push
            return None
        count = int(tensor.shape[0])
        rows = [row for row in tracked.watched if row < count]
        if not rows:
            return None
        unit = unit_rows(tensor, rows)
        for row, vector in zip(rows, unit, strict=True):
            if row not in tracked.starts:  # copied, so that it does not keep the others alive
                tracked.starts[row] = vector.copy()
        return rows, unit, count

    def _add_points(self, tracked: TrackedRows) -> None:
        if (read := self._read(tracked)) is None:
            return
        rows, unit, count = read
        to_start, cosines = row_cosines(unit, [tracked.starts[row] for row in rows])
        metrics = row_metrics(self._data_about(tracked.source), rows, count)
        # Only the append is under the lock; a reader waits for no tensor.
        with self._state.lock:
            tracked.add(self._state.finished_steps, rows, to_start, cosines, metrics)

    def _data_about(self, source: str) -> dict[str, Any]:
        """This step's data without entries whose panel names the rows of another tensor."""
        data = self._state.captures.data
        return {
            key: value
            for key, value in data.pushed.items()
            if (panel := data.panels.get(key)) is None or panel.describes_rows_of(source)
        }

    def _tensor(self, source: str, step_data: Mapping[str, Any]) -> Any:
        read = self.readers.get(source)
        return find_tensor(step_data, source) if read is None else read()

    def forget_after(self, step: int) -> None:
        """Drop points after `step`; starts stay, so that a series continues where it is cut.

        Called under the lock, with the other changes of a move to another step.
        """
        for tracked in self._tracked.values():
            for path in (*tracked.rows.values(), *tracked.pairs.values()):
                path.cut_after(step)

    # -- any thread's side ------------------------------------------------------------------------

    def add_source(self, name: str, read: Callable[[], Any], *, default: bool = False) -> None:
        """Offer a tensor whose rows can be watched.

        Args:
            name: its name, such as `encoder.weight`.
            read: returns the tensor. It is called on the training thread; other threads call it
                only to read the shape.
            default: whether watches without a source mean this tensor.
        """
        with self._state.lock:
            self.readers[name] = read
            if default or self.default_source is None:
                self.default_source = name

    @property
    def sources(self) -> list[str]:
        """Names of the tensors whose rows can be watched: the default, other sources, step data."""
        with self._state.lock:
            offered = sorted(self.readers, key=lambda name: name != self.default_source)
        now = self._newest_step_data()
        pushed = [name for key, value in now.items() for name in tensor_names(key, value)]
        return list(dict.fromkeys([*offered, *self._step_data_matrices, *pushed]))

    def _newest_step_data(self) -> dict[str, Any]:
        data = self._state.captures.data
        return {**data.published.values, **data.pushed}

    def add(self, feature_id: int, source: str | None = None) -> None:
        """Watch one more row of a source; see `DebugController.add_watch`."""
        self._choose([feature_id], source, keep_others=True)

    def replace(self, feature_ids: Iterable[int], source: str | None = None) -> None:
        """Replace the watched rows of one source. Without rows and source: end all watches."""
        self._choose(feature_ids, source, keep_others=False)

    def _choose(self, feature_ids: Iterable[int], source: str | None, *, keep_others: bool) -> None:
        features = list(feature_ids)
        for feature in features:
            check_integer("a watched row", feature, least=0)
        if features or source:
            name = self._checked_source(features, source)
            with self._state.changing():
                held = self._tracked_rows(name).watched if keep_others else []
                self._replace(name, list(dict.fromkeys([*held, *features])))
        elif not keep_others:
            self.remove(None)

    def _replace(self, source: str, chosen: list[int]) -> None:
        """Under the lock: watch these rows. Points of rows that are no longer watched stay."""
        # Checked here and not while training: a step must never fail because of a watch.
        self._check_limits(source, chosen)
        if chosen:
            self._tracked.setdefault(source, TrackedRows(source=source))
        if source in self._tracked:
            self._tracked[source].watched = chosen
        self._chosen_source, self.has_new_rows = source, bool(chosen) or self.has_new_rows

    def _check_limits(self, source: str, chosen: list[int]) -> None:
        others = [each for each in self._tracked.values() if each.source != source]
        total = len(chosen) + sum(len(each.watched) for each in others)
        if total > MAX_WATCHED:
            raise ConfigError(
                f"{total} watched rows are too many: the limit is {MAX_WATCHED} over all sources; "
                "remove some with remove_watch"
            )
        rows = pairs = 0
        after = [(self._tracked_rows(source), chosen), *((each, each.watched) for each in others)]
        for each, watched in after:
            rows += len({*each.rows, *watched})
            pairs += len({*each.pairs, *combinations(sorted(watched), 2)})
        if rows > MAX_KEPT_ROWS or pairs > MAX_KEPT_PAIRS:
            raise ConfigError(
                f"points of at most {MAX_KEPT_ROWS} rows and {MAX_KEPT_PAIRS} pairs are kept, "
                "including removed watches; drop the old ones with clear_trajectories"
            )

    def remove(self, feature_id: int | None, source: str | None = None) -> None:
        """Stop watching a row (every row if None), in one source or in all."""
        with self._state.changing():
            self._drop(feature_id, source)

    def _drop(self, feature_id: int | None, source: str | None) -> None:
        for each in self._tracked.values():
            if source in (None, each.source):
                each.watched = [row for row in each.watched if feature_id not in (None, row)]

    def _checked_source(self, features: list[int], source: str | None) -> str:
        name = source or self.default_source
        if features and (name is None or name not in self.sources):
            known = ", ".join(self.sources) or "none; offer one with watches.add_source"
            raise ConfigError(f"no source {name!r}; there are {known}")
        if features and name is not None:
            self._check_rows(features, name)
        return name or ""

    def _check_rows(self, features: list[int], source: str) -> None:
        # Only its shape is used: values may change meanwhile.
        tensor = self._tensor(source, self._newest_step_data())
        if tensor is None:  # step data of an earlier step, which may come again
            return
        if not tensor.shape:
            raise ConfigError(f"{source} is a single number; a watch needs a tensor with rows")
        rows = int(tensor.shape[0])
        outside = [feature for feature in features if feature >= rows]
        if outside:
            raise ConfigError(f"{source} has {rows} rows; there is no row {outside[0]} to watch")

    def watched(self, source: str | None = None) -> list[int]:
        """The watched rows of a source; of the one chosen last when left out."""
        with self._state.lock:
            return list(self._tracked_rows(source).watched)

    def _tracked_rows(self, source: str | None = None) -> TrackedRows:
        """The watched rows of a source; of the one chosen last when left out."""
        name = source or self._chosen_source or self.default_source or ""
        return self._tracked.get(name) or TrackedRows(source=name)

    def watched_by_source(self) -> dict[str, list[int]]:
        """The watched rows, by source."""
        with self._state.lock:
            tracked = self._tracked.items()
            return {name: list(each.watched) for name, each in tracked if each.watched}

    @property
    def source(self) -> str | None:
        """The tensor that was chosen last, or the default one."""
        return self._tracked_rows().source or None

    def trajectories(self, source: str | None = None) -> dict[int, list[dict[str, float]]]:
        """Points of every row that is or was watched; see `DebugController.get_trajectories`."""
        return {row: path.points() for row, path in self._copy_one(source).rows.items()}

    def pairwise(self, source: str | None = None) -> dict[Pair, list[dict[str, float]]]:
        """Cosine of every watched pair over steps; of the source chosen last when left out."""
        return {pair: path.points() for pair, path in self._copy_one(source).pairs.items()}

    def _copy_one(self, source: str | None) -> TrackedRows:
        with self._state.lock:
            tracked = self._tracked_rows(source)
        return self._copy(tracked, None)

    def copy(self, *, points: int = EXACT_POINTS, in_all: int = 500_000) -> list[TrackedRows]:
        """Copies of all sources that are or were watched, the source chosen last first.

        Args:
            points: limit of points per series; longer ones are thinned.
            in_all: limit of points over all series, so that a response stays bounded.
        """
        with self._state.lock:
            current = self._tracked_rows()
            tracked = [current, *(f for f in self._tracked.values() if f is not current)]
            series = sum(len(each.rows) + len(each.pairs) for each in tracked)
        # At least 2, so that each series keeps its first and last point.
        most = max(2, min(points, in_all // max(series, 1)))
        return [self._copy(each, most) for each in tracked]

    def export(self, *, points: int = EXACT_POINTS, in_all: int = 500_000) -> dict[str, Any]:
        """All points as JSON: of the source chosen last, and `others` by name."""
        current, *others = self.copy(points=points, in_all=in_all)
        return {
            "source": current.source or None,
            **current.describe(),
            "others": {each.source: each.describe() for each in others},
            "exact": all(each.exact for each in (current, *others)),
        }

    def clear(self) -> None:
        """Drop all points; watched rows are recorded from here on."""
        with self._state.changing():
            watched = [each for each in self._tracked.values() if each.watched]
            # New objects: a point that the training thread is about to add goes into the old ones,
            # and is dropped with them.
            self._tracked = {
                each.source: TrackedRows(source=each.source, watched=each.watched)
                for each in watched
            }
            self.has_new_rows = bool(watched)

    def _copy(self, tracked: TrackedRows, points: int | None) -> TrackedRows:
        """Copy and thin the series of one source."""
        # The lock is taken for one series at a time: there may be 4,352 of them.
        with self._state.lock:
            copied = replace(tracked, watched=list(tracked.watched), starts={})
            rows, pairs = dict(tracked.rows), dict(tracked.pairs)
        copied.rows = {row: self._copy_path(path, points, copied) for row, path in rows.items()}
        copied.pairs = {pair: self._copy_path(path, points, copied) for pair, path in pairs.items()}
        return copied

    def _copy_path(self, path: Trajectory, points: int | None, into: TrackedRows) -> Trajectory:
        with self._state.lock:
            copied = path.copy()
        if points is not None and copied.thin(points):
            into.exact = False
        return copied
