"""Series of scalars, whole in memory, given out exactly or as min/max buckets."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from midstep.core.errors import ConfigError
from midstep.facts.columns import LONG_RUN, RowGroup, Rows
from midstep.facts.files import FactsFiles
from midstep.facts.timelines import TimelinePath

__all__ = ["Series", "SeriesStore"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Series:
    """One series: exact points, or buckets with the lowest and highest value of each."""

    step: Integers
    """Steps; of a bucket, its first."""
    low: Floats
    high: Floats
    """The same array as `low` when exact."""
    exact: bool
    count: int
    """Points that are behind it."""


class _Table:
    """Rows with the same names, in growing arrays."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.column = {name: index for index, name in enumerate(names)}
        self.size = self._room = 0
        self.is_rising = True
        """Whether each step is higher than the one before, so that no row replaces another."""
        self._step = np.empty(0, np.int64)
        self._timeline = np.empty(0, np.uint32)
        self._seq = np.empty(0, np.int64)
        self._values = np.empty((len(names), 0), np.float64)

    def append(self, rows: Rows, more_to_come: int) -> None:
        """Take in rows; `more_to_come` says how many may follow soon."""
        start, stop = self.size, self.size + len(rows)
        if stop > self._room:
            self._make_room(stop + more_to_come)
        self._step[start:stop] = rows["step"]
        self._timeline[start:stop] = rows["timeline"]
        self._seq[start:stop] = rows["seq"]
        self._values[:, start:stop] = rows["values"].T
        self.size = stop
        steps = self._step[max(0, start - 1) : stop]
        self.is_rising = self.is_rising and bool((steps[1:] > steps[:-1]).all())

    def _make_room(self, wanted: int) -> None:
        self._room = max(wanted, 2 * self._room, 8)
        self._step = _grown(self._step, self._room, self.size)
        self._timeline = _grown(self._timeline, self._room, self.size)
        self._seq = _grown(self._seq, self._room, self.size)
        self._values = _grown(self._values, self._room, self.size)

    def steps(self) -> Integers:
        """The step of each row."""
        return self._step[: self.size]

    def ranks(self) -> tuple[npt.NDArray[np.uint32], Integers]:
        """Timeline and number of each row: which of two rows for one step counts."""
        return self._timeline[: self.size], self._seq[: self.size]

    def values(self, name: str) -> Floats:
        """One column."""
        return self._values[self.column[name], : self.size]


def _grown(array: npt.NDArray[Number], room: int, size: int) -> npt.NDArray[Number]:
    made = np.empty((*array.shape[:-1], room), array.dtype)
    made[..., :size] = array[..., :size]
    return made


class SeriesStore:
    """Every series of a run, refreshed from its files. Safe to use from several threads.

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

    def __init__(self, run_dir: str | Path, *, rank: int = 0) -> None:
        self._files = FactsFiles(run_dir, rank=rank)
        self._tables: dict[tuple[str, ...], _Table] = {}
        self._by_name: dict[str, list[_Table]] = {}
        self._merged: dict[str, tuple[int, Integers, Floats]] = {}
        self._lock = threading.Lock()
        self.seq = 0
        """Rows up to this number are in it."""
        self.timeline = 0
        """The highest timeline met."""

    @property
    def names(self) -> list[str]:
        """Names of all series, in the order they appeared."""
        return list(self._by_name)

    @property
    def problems(self) -> list[str]:
        """What is damaged, one line each."""
        return self._files.problems

    def refresh(self) -> bool:
        """Take in what was written since; True when there was something."""
        with self._lock:
            before = self.seq
            self._files.find()
            for file in self._files.changed_steps():
                for group in file.groups():
                    self._take(group, file.unread_bytes)
            return self.seq != before

    def _take(self, group: RowGroup, unread_bytes: int) -> None:
        table = self._tables.get(group.names)
        if table is None:
            table = self._tables[group.names] = _Table(group.names)
            for name in group.names:
                self._by_name.setdefault(name, []).append(table)
        # A long run is likely to go on to the end of the file; short ones grow step by step.
        more = unread_bytes // group.rows.itemsize if len(group.rows) >= LONG_RUN else 0
        table.append(group.rows, more)
        self.seq = max(self.seq, int(group.rows["seq"][-1]))
        self.timeline = max(self.timeline, int(group.rows["timeline"].max()))

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

        Per step the row of the highest timeline counts, and of these the last written. With a
        `path` only the rows that belong to it do: the series as it was in that timeline.
        """
        if points < 1:
            raise ConfigError(f"points must be at least 1, got {points}")
        with self._lock:
            if name not in self._by_name:
                raise ConfigError(f"no series {name!r} in this run; it has {_some(self._by_name)}")
            step, value = self._column(name) if path is None else self._along(name, path)
        first = 0 if start is None else int(np.searchsorted(step, start))
        last = len(step) if stop is None else int(np.searchsorted(step, stop))
        return _thin(step[first:last], value[first:last], points)

    def _column(self, name: str) -> tuple[Integers, Floats]:
        """Steps, rising, and values of a series. The arrays are not written to again."""
        tables = self._by_name[name]
        if len(tables) == 1 and tables[0].is_rising:
            return tables[0].steps(), tables[0].values(name)
        size = sum(table.size for table in tables)
        cached = self._merged.get(name)
        if cached is None or cached[0] != size:
            cached = self._merged[name] = (size, *_merge(name, tables))
        return cached[1], cached[2]

    def _along(self, name: str, path: TimelinePath) -> tuple[Integers, Floats]:
        """The same for one timeline; asked for seldom, so it is not kept."""
        return _merge(name, self._by_name[name], path)


def _merge(
    name: str, tables: list[_Table], path: TimelinePath | None = None
) -> tuple[Integers, Floats]:
    """One value per step: highest timeline first, then highest number."""
    step = np.concatenate([table.steps() for table in tables])
    timeline = np.concatenate([table.ranks()[0] for table in tables])
    seq = np.concatenate([table.ranks()[1] for table in tables])
    values = np.concatenate([table.values(name) for table in tables])
    if path is not None:
        kept = _belongs(step, timeline, path)
        step, timeline, seq, values = step[kept], timeline[kept], seq[kept], values[kept]
    order = np.lexsort((seq, timeline, step))
    sorted_step = step[order]
    is_last = np.append(sorted_step[1:] != sorted_step[:-1], True) if len(order) else order == 0
    return sorted_step[is_last], values[order][is_last]


def _belongs(
    step: Integers, timeline: npt.NDArray[np.uint32], path: TimelinePath
) -> npt.NDArray[np.bool_]:
    """Which rows lie on the path."""
    kept = np.zeros(len(step), np.bool_)
    for each, last in path.limits.items():
        kept |= (timeline == each) if last is None else (timeline == each) & (step <= last)
    return kept


def _thin(step: Integers, value: Floats, points: int) -> Series:
    count = len(step)
    if count <= points:
        return Series(step.copy(), (low := value.copy()), low, exact=True, count=count)
    edges = np.linspace(0, count, points, endpoint=False).astype(np.int64)
    # fmin and fmax pass over NaN, unless a bucket has nothing else.
    low, high = np.fmin.reduceat(value, edges), np.fmax.reduceat(value, edges)
    return Series(step[edges], low, high, exact=False, count=count)


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "") if listed else "none yet"
