"""Series of scalars in memory, merged over timelines, given out exactly or as min/max buckets."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstep.core.errors import ConfigError
from midstep.facts.format.step_frames import CHECKSUM_NAMES
from midstep.facts.read.fact_files import FactsFiles
from midstep.facts.read.row_table import Floats, Integers, Points, RowTable
from midstep.facts.read.step_columns import LONG_RUN, RowGroup
from midstep.facts.read.timelines import CurrentTimeline, TimelinePath

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


class SeriesStore:
    """The series of a run, refreshed from its files. Safe to use from several threads.

    Args:
        run_dir: the run directory.
        rank: whose facts.
        only: keep this series alone; by default all of them.
        with_wall: keep the wall time of each row too.
        most_rows: keep at most so many rows of each layout, and extremes of older rows. A part that
            is not kept is read from the disk again when it is requested alone, and then forgotten.

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
        most_rows: int | None = None,
    ) -> None:
        self._run_dir, self._rank = run_dir, rank
        self._files = FactsFiles(run_dir, rank=rank)
        self._only, self._with_wall, self._most_rows = only, with_wall, most_rows
        self._from_disk: SeriesStore | None = None
        """Every row, if a part was requested that is not kept; until `forget_rows`."""
        self._tables: dict[tuple[str, ...], RowTable] = {}
        self._by_name: dict[str, list[RowTable]] = {}
        self._merged: dict[str, tuple[int, TimelinePath | None, Points]] = {}
        self._current = CurrentTimeline(run_dir)
        self._lock = threading.Lock()
        self.seq = 0
        """The number of the last row that was read."""
        self.timeline = 0
        """The present timeline, which may have no row yet."""

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
            # After the rows: a rewind is recorded before the first row that follows it.
            self._current.refresh()
            self.timeline = max(self.timeline, self._current.number)
            return self.seq != before

    def _take(self, group: RowGroup) -> None:
        self.seq = max(self.seq, int(group.rows["seq"][-1]))
        self.timeline = max(self.timeline, int(group.rows["timeline"].max()))
        if self._only is not None and self._only not in group.names:
            return
        table = self._tables.get(group.names)
        if table is None:
            table = RowTable(
                group.names,
                only=self._only,
                with_wall=self._with_wall,
                most_rows=self._most_rows,
            )
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

        Rows of rewound steps do not count. With a `path` only
        rows on that path count: the series as it was in that timeline. Of several rows of a step
        the one of the highest timeline counts, and of these the last written.
        """
        if points < 1:
            raise ConfigError(f"points must be at least 1, got {points}")
        with self._lock:
            if name not in self._by_name:
                raise ConfigError(f"no series {name!r} in this run; it has {_some(self._by_name)}")
            step, value, _ = self._points(name, path)
            left_out = sum(table.left_out for table in self._by_name[name])
            has_all = not left_out or self._has_all_from(name, start)
        first = 0 if start is None else int(np.searchsorted(step, start))
        last = len(step) if stop is None else int(np.searchsorted(step, stop))
        if has_all:
            return downsample(step[first:last], value[first:last], points)
        # Rows of earlier timelines are not kept once a later one has the same steps.
        if (first, last) != (0, len(step)) or points > len(step) // 2 or path is not None:
            disk = self._rows_from_disk()
            return disk.series(name, start=start, stop=stop, points=points, path=path)
        return replace(downsample(step, value, points), count=len(step) + left_out)

    def _has_all_from(self, name: str, start: int | None) -> bool:
        """Whether every row from a step on is in memory."""
        firsts = [table.exact_from() for table in self._by_name[name]]
        return start is not None and all(first is None or first <= start for first in firsts)

    def _rows_from_disk(self) -> SeriesStore:
        if self._from_disk is None:
            self._from_disk = SeriesStore(
                self._run_dir, rank=self._rank, only=self._only, with_wall=self._with_wall
            )
            self._from_disk.refresh()
        return self._from_disk

    def forget_rows(self) -> None:
        """Forget what was read from the disk for one request."""
        self._from_disk = None

    def points(self, name: str) -> Points | None:
        """Every point of a series; None if the run has no such series."""
        with self._lock:
            return self._points(name) if name in self._by_name else None

    def _points(self, name: str, path: TimelinePath | None = None) -> Points:
        tables = self._by_name[name]
        if path is not None:  # requested seldom, so it is not cached
            return _merge(name, tables, path)
        current = self._current.path
        if current is None and len(tables) == 1 and tables[0].is_rising:
            return tables[0].points(name)  # nearly always: nothing to sort or copy
        size = sum(table.size for table in tables)
        cached = self._merged.get(name)
        if cached is None or cached[0] != size or cached[1] is not current:
            cached = self._merged[name] = (size, current, _merge(name, tables, current))
        return cached[2]


def _merge(name: str, tables: list[RowTable], path: TimelinePath | None = None) -> Points:
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
