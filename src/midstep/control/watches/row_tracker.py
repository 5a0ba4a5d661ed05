"""Follows the watched rows.

Sources are other people's code: they are never asked under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from midstep.control.control_state import ControlState
from midstep.control.watches.tensor_rows import (
    find_tensor,
    row_cosines,
    row_metrics,
    tensor_names,
    unit_rows,
)
from midstep.control.watches.trajectory import EXACT_POINTS, Trajectory
from midstep.control.watches.watch_list import Pair, TrackedRows
from midstep.core.errors import ConfigError

log = logging.getLogger("midstep.control")


class Watches:
    """Reads rows at the boundary for the training thread, and answers for any other."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._list = state.watch_list

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self) -> None:
        """Note where rows that were just put on a list start from."""
        if self._list.has_new_rows:
            for followed in self._watched_sources():
                self._guarded(followed, self._read)

    def record(self) -> None:
        """Add a point for every watched row that is there in this step."""
        if self._state.capture_store.step_data:
            self._list.note_matrices(self._state.capture_store.step_data)
        if self._list.active:
            for followed in self._watched_sources():
                self._guarded(followed, self._add_points)

    def _watched_sources(self) -> list[TrackedRows]:
        with self._state.lock:
            self._list.has_new_rows = False
            return [each for each in self._list.tracked.values() if each.watched]

    def _guarded(self, followed: TrackedRows, work: Any) -> None:
        try:
            work(followed)
        except Exception as error:
            # A source is somebody's callable: if it raises, its watch ends and training goes on.
            source, state = followed.source, self._state
            log.exception("watching %s raised and is off; training goes on", source)
            with state.lock:
                self._list.drop(None, source)
                state.reason = f"Watching {source} stopped: {type(error).__name__}: {error}"
                state.refresh_flags()

    def _read(self, followed: TrackedRows) -> tuple[list[int], Any, int] | None:
        """Rows that are there now, as unit vectors, out of how many; a new one's start is kept."""
        tensor = self._tensor(followed.source)
        if tensor is None:  # step data that this step did not push
            return None
        count = int(tensor.shape[0])
        rows = [row for row in followed.watched if row < count]
        if not rows:
            return None
        unit = unit_rows(tensor, rows)
        for row, vector in zip(rows, unit, strict=True):
            if row not in followed.starts:
                followed.starts[row] = vector.copy()
        return rows, unit, count

    def _add_points(self, followed: TrackedRows) -> None:
        if (read := self._read(followed)) is None:
            return
        rows, unit, count = read
        to_start, cosines = row_cosines(unit, [followed.starts[row] for row in rows])
        metrics = row_metrics(self._data_about(followed.source), rows, count)
        with self._state.lock:
            followed.add(self._state.finished_steps, rows, to_start, cosines, metrics)

    def _data_about(self, source: str) -> dict[str, Any]:
        """This step's data, less what its hint says to be about other rows than the source's."""
        captures = self._state.capture_store
        hints = captures.panels
        return {
            key: value
            for key, value in captures.step_data.items()
            if (hint := hints.get(key)) is None or hint.describes_rows_of(source)
        }

    def _tensor(self, source: str) -> Any:
        read = self._list.sources.get(source)
        return find_tensor(self._state.capture_store.step_data, source) if read is None else read()

    # -- any thread's side ------------------------------------------------------------------------

    def add_source(self, name: str, read: Callable[[], Any], *, default: bool = False) -> None:
        """Offer a named tensor, whose rows can be watched."""
        with self._state.lock:
            self._list.add_source(name, read, default=default)

    @property
    def sources(self) -> list[str]:
        """Names of the tensors whose rows can be watched: the default, the offered, step data's."""
        captures, board = self._state.capture_store, self._list
        with self._state.lock:
            offered = sorted(board.sources, key=lambda name: name != board.default_source)
        now = {**captures.shown.values, **captures.step_data}
        pushed = [name for key, value in now.items() for name in tensor_names(key, value)]
        return list(dict.fromkeys([*offered, *board.step_data_matrices, *pushed]))

    def add(self, feature_id: int, source: str | None = None) -> None:
        """Watch one more row of a source; see `DebugController.add_watch`."""
        self._choose([feature_id], source, keep_others=True)

    def replace(self, feature_ids: Iterable[int], source: str | None = None) -> None:
        """Replace the watch list of one source; no rows and no source: watch nothing at all."""
        self._choose(feature_ids, source, keep_others=False)

    def _choose(self, feature_ids: Iterable[int], source: str | None, *, keep_others: bool) -> None:
        features = [_check_row(feature) for feature in feature_ids]
        if features or source:
            name = self._checked_source(features, source)
            with self._state.changing():
                held = self._list.tracked_rows(name).watched if keep_others else []
                self._list.replace(name, [*held, *features])
        elif not keep_others:
            self.remove(None)

    def remove(self, feature_id: int | None, source: str | None = None) -> None:
        """Watch a row (every row when None) no longer, in one source or in all."""
        with self._state.changing():
            self._list.drop(feature_id, source)

    def _checked_source(self, features: list[int], source: str | None) -> str:
        name = source or self._list.default_source
        if features and (name is None or name not in self.sources):
            known = ", ".join(self.sources) or "none; offer one with add_source"
            raise ConfigError(f"no source {name!r}; there are {known}")
        if features and name is not None:
            self._check_rows(features, name)
        return name or ""

    def _check_rows(self, features: list[int], source: str) -> None:
        captures = self._state.capture_store
        read = self._list.sources.get(source)  # a shape is read from any thread, values are not
        now = {**captures.shown.values, **captures.step_data}
        tensor = find_tensor(now, source) if read is None else read()
        if tensor is None:  # step data of an earlier step; rows that never come get no points
            return
        if not tensor.shape:
            raise ConfigError(f"{source} is a single number; a watch follows a row of a tensor")
        rows = int(tensor.shape[0])
        outside = [feature for feature in features if feature >= rows]
        if outside:
            raise ConfigError(f"{source} has {rows} rows; row {outside[0]} cannot be watched")

    def watched(self, source: str | None = None) -> list[int]:
        """The watched rows of a source; of the one chosen last when left out."""
        with self._state.lock:
            return list(self._list.tracked_rows(source).watched)

    def watched_by_source(self) -> dict[str, list[int]]:
        """The watched rows, by source."""
        with self._state.lock:
            followed = self._list.tracked
            return {name: list(each.watched) for name, each in followed.items() if each.watched}

    @property
    def source(self) -> str | None:
        """The tensor that was chosen last, or the default one."""
        return self._list.tracked_rows().source or None

    def trajectories(self, source: str | None = None) -> dict[int, list[dict[str, float]]]:
        """Points of every row that is or was watched; see `DebugController.get_trajectories`."""
        return {row: path.points() for row, path in self._copy_one(source).rows.items()}

    def pairwise(self, source: str | None = None) -> dict[Pair, list[dict[str, float]]]:
        """Cosine of every watched pair over steps; of the source chosen last when left out."""
        return {pair: path.points() for pair, path in self._copy_one(source).pairs.items()}

    def _copy_one(self, source: str | None) -> TrackedRows:
        with self._state.lock:
            followed = self._list.tracked_rows(source)
        return self._copy(followed, None)

    def copy(self, *, points: int = EXACT_POINTS, in_all: int = 500_000) -> list[TrackedRows]:
        """Copies of all sources that are or were watched, the source chosen last first.

        Args:
            points: most points a series; what is beyond is thinned.
            in_all: most points over all series, so that an answer stays bounded.
        """
        with self._state.lock:
            current = self._list.tracked_rows()
            tracked = [current, *(f for f in self._list.tracked.values() if f is not current)]
            series = sum(len(each.rows) + len(each.pairs) for each in tracked)
        most = max(2, min(points, in_all // max(series, 1)))
        return [self._copy(each, most) for each in tracked]

    def export(self, *, points: int = EXACT_POINTS, in_all: int = 500_000) -> dict[str, Any]:
        """All points as JSON can hold them, other sources than the one chosen last by name."""
        current, *others = self.copy(points=points, in_all=in_all)
        return {
            "source": current.source or None,
            **current.describe(),
            "others": {each.source: each.describe() for each in others},
            "exact": all(each.exact for each in (current, *others)),
        }

    def clear(self) -> None:
        """Drop all points; watched rows are recorded from here on."""
        with self._state.lock:
            self._list.clear()
            self._state.wake()
        self._state.notify()

    def _copy(self, followed: TrackedRows, points: int | None) -> TrackedRows:
        """Series by series, each under the lock for one copy of its arrays."""
        with self._state.lock:
            copied = replace(followed, watched=list(followed.watched), starts={})
            rows, pairs = dict(followed.rows), dict(followed.pairs)
        copied.rows = {row: self._copy_path(path, points, copied) for row, path in rows.items()}
        copied.pairs = {pair: self._copy_path(path, points, copied) for pair, path in pairs.items()}
        return copied

    def _copy_path(self, path: Trajectory, points: int | None, into: TrackedRows) -> Trajectory:
        with self._state.lock:
            copied = path.copy()
        if points is not None and copied.thin(points):
            into.exact = False
        return copied


def _check_row(feature: Any) -> int:
    if isinstance(feature, bool) or not isinstance(feature, int) or feature < 0:
        raise ConfigError(f"a watch needs a row number of 0 or more, got {feature!r}")
    return feature
