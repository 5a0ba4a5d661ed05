"""Series of scalars in memory, merged over timelines, given out exactly or as min/max buckets."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from midstep.core.errors import ConfigError
from midstep.facts.format.step_frames import CHECKSUM_NAMES
from midstep.facts.read.fact_files import FactsFiles
from midstep.facts.read.step_columns import LONG_RUN, RowGroup, Rows
from midstep.facts.read.timelines import TimelinePath

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
ALL_POINTS = 2**62
"""As `points`: never downsample."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: exact points, or buckets with the lowest and highest value of each."""

    x: npt.NDArray[Any]
    """Steps; for a curve over another axis, finished epochs or seconds. Of a bucket, its first."""
    low: Floats
    high: Floats
    """The same array as `low` when exact."""
    exact: bool
    count: int
    """How many points it was made from."""

    @property
    def step(self) -> Integers:
        """The steps, if they are its axis."""
        return self.x


def downsample(x: npt.NDArray[Any], value: Floats, points: int) -> Series:
    """At most `points` points or buckets. A bucket ignores NaN unless it holds nothing else.

    >>> downsample(np.arange(4.0), np.array([1.0, 5.0, 2.0, 3.0]), 2).high.tolist()
    [5.0, 3.0]
    """
    count = len(x)
    if count <= points:
        # Copies, so that a few points do not keep the arrays of a whole run in memory.
        return Series(x.copy(), (low := value.copy()), low, exact=True, count=count)
    # Lowest and highest, not a mean: no spike is lost, however many points a bucket has.
    edges = np.linspace(0, count, points, endpoint=False).astype(np.int64)
    low, high = np.fmin.reduceat(value, edges), np.fmax.reduceat(value, edges)
    return Series(x[edges], low, high, exact=False, count=count)


class Points(NamedTuple):
    """Every point of a series in order of steps. The arrays are not written to again."""

    step: Integers
    value: Floats
    wall: Floats
    """Wall times; empty unless the store keeps them."""


class _Table:
    """Rows with the same names, in growing arrays."""

    def __init__(self, names: tuple[str, ...], *, only: str | None, with_wall: bool) -> None:
        kept_names = names if only is None else (only,)
        self._position = {name: index for index, name in enumerate(kept_names)}
        self._source = slice(None) if only is None else [names.index(only)]
        self.size = self._room = 0
        self.is_rising = True
        """Whether each step is higher than the one before, so that no row replaces another."""
        self._columns: dict[str, npt.NDArray[Any]] = {
            "step": np.empty(0, np.int64),
            "timeline": np.empty(0, np.uint32),
            "seq": np.empty(0, np.int64),
        }
        if with_wall:
            self._columns["wall"] = np.empty(0, np.float64)
        # One row of memory for each name, so that a series is one contiguous array.
        self._values = np.empty((len(kept_names), 0), np.float64)

    def append(self, rows: Rows, more_to_come: int) -> None:
        """Take in rows; `more_to_come` says how many may follow soon."""
        start, stop = self.size, self.size + len(rows)
        if stop > self._room:
            self._make_room(stop + more_to_come)
        for field, column in self._columns.items():
            column[start:stop] = rows[field]
        self._values[:, start:stop] = rows["values"][:, self._source].T
        self.size = stop
        steps = self._columns["step"][max(0, start - 1) : stop]
        self.is_rising = self.is_rising and bool((steps[1:] > steps[:-1]).all())

    def _make_room(self, wanted: int) -> None:
        # New arrays, never a resize: readers may still hold views of the old ones.
        self._room = max(wanted, 2 * self._room, 8)
        for field, column in self._columns.items():
            self._columns[field] = _grown(column, self._room, self.size)
        self._values = _grown(self._values, self._room, self.size)

    def points(self, name: str) -> Points:
        """The rows as they were appended, with one column of values."""
        values = self._values[self._position[name], : self.size]
        return Points(self._rows("step"), values, self._rows("wall"))

    def precedence(self) -> tuple[npt.NDArray[np.uint32], Integers]:
        """Timeline and number of each row: of two rows for one step, the higher one counts."""
        return self._rows("timeline"), self._rows("seq")

    def _rows(self, field: str) -> npt.NDArray[Any]:
        column = self._columns.get(field, np.empty(0))  # wall times are kept for curves only
        return column[: self.size]

    @property
    def bytes(self) -> int:
        """Size of the arrays."""
        return sum(array.nbytes for array in (self._values, *self._columns.values()))


def _grown(array: npt.NDArray[Any], room: int, size: int) -> npt.NDArray[Any]:
    larger = np.empty((*array.shape[:-1], room), array.dtype)
    larger[..., :size] = array[..., :size]
    return larger


class SeriesStore:
    """The series of a run, refreshed from its files. Safe to use from several threads.

    Args:
        run_dir: the run directory.
        rank: whose facts.
        only: keep this series alone; by default all of them.
        with_wall: keep the wall time of each row too.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.log(1, loss=0.5)
    >>> store = SeriesStore(folder)
    >>> store.refresh()
    True
    >>> store.series("loss").low.tolist()
    [0.5]
    """

    def __init__(
        self,
        run_dir: str | Path,
        *,
        rank: int = 0,
        only: str | None = None,
        with_wall: bool = False,
    ) -> None:
        self._files = FactsFiles(run_dir, rank=rank)
        self._only, self._with_wall = only, with_wall
        self._tables: dict[tuple[str, ...], _Table] = {}
        self._by_name: dict[str, list[_Table]] = {}
        self._merged: dict[str, tuple[int, Points]] = {}
        self._lock = threading.Lock()
        self.seq = 0
        """The number of the last row that was read."""
        self.timeline = 0
        """The highest timeline of the rows."""

    @property
    def names(self) -> list[str]:
        """Names of the series, in the order they appeared, without checksums of steps."""
        return [name for name in self._by_name if name not in CHECKSUM_NAMES]

    @property
    def problems(self) -> list[str]:
        """Damage in the files, one line each."""
        return self._files.problems

    @property
    def bytes(self) -> int:
        """Size of the rows in memory, without what merging adds."""
        with self._lock:
            return sum(table.bytes for table in self._tables.values())

    def refresh(self) -> bool:
        """Read what was written since the last call; True if there was something."""
        with self._lock:
            before = self.seq
            self._files.rescan()
            for file in self._files.changed_steps():
                for group in file.groups():
                    self._take(group)
            return self.seq != before

    def _take(self, group: RowGroup) -> None:
        self.seq = max(self.seq, int(group.rows["seq"][-1]))
        self.timeline = max(self.timeline, int(group.rows["timeline"].max()))
        if self._only is not None and self._only not in group.names:
            return
        table = self._tables.get(group.names)
        if table is None:
            table = _Table(group.names, only=self._only, with_wall=self._with_wall)
            self._tables[group.names] = table
            for name in group.names if self._only is None else (self._only,):
                self._by_name.setdefault(name, []).append(table)
        # A long run of rows probably continues to the end of the file, so there is room for it at
        # once; short runs grow step by step.
        more = group.bytes_after // group.rows.itemsize if len(group.rows) >= LONG_RUN else 0
        table.append(group.rows, more)

    def series(
        self,
        name: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        points: int = 2000,
        path: TimelinePath | None = None,
    ) -> Series:
        """One series between two steps (`stop` excluded), in at most `points` points.

        For each step the row of the highest timeline counts, and of these the last written. With
        a `path` only rows on that path count: the series as it was in that timeline.
        """
        if points < 1:
            raise ConfigError(f"points must be at least 1, got {points}")
        with self._lock:
            if name not in self._by_name:
                raise ConfigError(f"no series {name!r} in this run; it has {_some(self._by_name)}")
            step, value, _ = self._points(name, path)
        first = 0 if start is None else int(np.searchsorted(step, start))
        last = len(step) if stop is None else int(np.searchsorted(step, stop))
        return downsample(step[first:last], value[first:last], points)

    def points(self, name: str) -> Points | None:
        """Every point of a series; None if the run has no such series."""
        with self._lock:
            return self._points(name) if name in self._by_name else None

    def _points(self, name: str, path: TimelinePath | None = None) -> Points:
        tables = self._by_name[name]
        if path is not None:  # requested seldom, so it is not cached
            return _merge(name, tables, path)
        if len(tables) == 1 and tables[0].is_rising:  # nearly always: nothing to sort or copy
            return tables[0].points(name)
        size = sum(table.size for table in tables)
        cached = self._merged.get(name)
        if cached is None or cached[0] != size:
            cached = self._merged[name] = (size, _merge(name, tables))
        return cached[1]


def _merge(name: str, tables: list[_Table], path: TimelinePath | None = None) -> Points:
    """One row for each step: of the highest timeline, and of these the highest number."""
    parts = zip(*(table.points(name) for table in tables), strict=True)
    points = Points(*map(np.concatenate, parts))
    ranks = zip(*(table.precedence() for table in tables), strict=True)
    timeline, seq = map(np.concatenate, ranks)
    order = np.lexsort((seq, timeline, points.step))  # by step, then timeline, then number
    if path is not None:
        order = order[_is_on_path(points.step, timeline, path)[order]]
    step = points.step[order]
    # Of the rows of one step the last one counts.
    rows = order[np.append(step[1:] != step[:-1], True)] if len(order) else order
    return Points(
        points.step[rows],
        points.value[rows],
        points.wall[rows] if len(points.wall) else points.wall,
    )


def _is_on_path(
    step: Integers, timeline: npt.NDArray[np.uint32], path: TimelinePath
) -> npt.NDArray[np.bool_]:
    is_on = np.zeros(len(step), np.bool_)
    for each, last in path.limits.items():
        is_on |= (timeline == each) if last is None else (timeline == each) & (step <= last)
    return is_on


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "") if listed else "none yet"
