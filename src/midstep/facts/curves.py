"""Curves of runs for drawing over each other: one series, over steps, epochs or time.

A curve is exact, or min/max buckets when there are too many points: no spike is ever lost. Points
are kept between two looks, so that of a live run only what is new is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from midstep.facts.files import FactsFiles
from midstep.facts.history import EpochHistory

__all__ = ["Axis", "Curve", "CurveShelf", "axis_of_epochs", "thin"]

Axis = Literal["step", "epoch", "time"]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
MOST_BYTES = 512 << 20
"""Of points that are kept."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Exact points, or buckets with the lowest and highest value of each."""

    x: Floats
    """Steps, finished epochs, or seconds since the run began; of a bucket, its first."""
    low: Floats
    high: Floats
    """The same array as `low` when exact."""
    exact: bool
    count: int
    """Points that are behind it."""


def thin(x: Floats, value: Floats, points: int) -> Curve:
    """At most `points` points or buckets; NaN is passed over unless a bucket has nothing else.

    >>> thin(np.arange(4.0), np.array([1.0, 5.0, 2.0, 3.0]), 2).high.tolist()
    [5.0, 3.0]
    """
    count = len(x)
    if count <= points:
        return Curve(x, value, value, exact=True, count=count)
    edges = np.linspace(0, count, points, endpoint=False).astype(np.int64)
    low = np.fmin.reduceat(value, edges)
    high = np.fmax.reduceat(value, edges)
    return Curve(x[edges], low, high, exact=False, count=count)


def axis_of_epochs(step: Floats, history: EpochHistory) -> Floats:
    """Finished epochs at each step: straight lines between the ends of epochs, and on behind the
    last one as fast as that one went. NaN where no epoch has ended yet.

    >>> history = EpochHistory()
    >>> history.take({"epoch": 0, "timeline": 0, "step": 10, "wall": 0.0}, {"loss": 1.0})
    >>> axis_of_epochs(np.array([5.0, 10.0, 20.0]), history).tolist()
    [0.5, 1.0, 2.0]
    """
    ends = {0.0: 0.0}
    for epoch, last in history.ends():
        ends[last] = epoch + 1.0
    if len(ends) < 2:
        return np.full(len(step), np.nan)
    steps, epochs = np.array(sorted(ends)), np.array([ends[each] for each in sorted(ends)])
    found: Floats = np.interp(step, steps, epochs)
    pace = (epochs[-1] - epochs[-2]) / (steps[-1] - steps[-2])
    behind = step > steps[-1]
    found[behind] = epochs[-1] + pace * (step[behind] - steps[-1])
    return found


@dataclass(frozen=True, slots=True)
class _Points:
    step: Floats
    wall: Floats
    value: Floats


class _Source:
    """One series of one run directory, read on as its files grow."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._name, self._files = name, FactsFiles(run_dir)
        self._parts: list[tuple[Any, ...]] = []
        self._points: _Points | None = None

    def refresh(self) -> _Points:
        """Every point: per step the row of the highest timeline, of these the last written."""
        self._files.find()
        for file in self._files.changed_steps():
            for group in file.groups():
                if self._name in group.names:
                    column, rows = group.names.index(self._name), group.rows
                    names = ("step", "timeline", "seq", "wall")
                    fixed = [rows[name].copy() for name in names]
                    self._parts.append((*fixed, rows["values"][:, column].copy()))
                    self._points = None
        if self._points is None:
            self._points = self._merged()
        return self._points

    def _merged(self) -> _Points:
        if not self._parts:
            empty = np.empty(0)
            return _Points(empty, empty, empty)
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        self._parts = [tuple(columns)]
        step, timeline, seq, wall, value = columns
        if not (step[1:] > step[:-1]).all():
            order = np.lexsort((seq, timeline, step))
            ordered = step[order]
            order = order[np.append(ordered[1:] != ordered[:-1], True)]
            step, wall, value = step[order], wall[order], value[order]
        return _Points(step.astype(np.float64), wall, value)

    @property
    def bytes(self) -> int:
        """What it holds in memory."""
        return sum(array.nbytes for part in self._parts for array in part)


class CurveShelf:
    """Points of the curves that were drawn last. Safe to use from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._sources: OrderedDict[tuple[str, str], _Source] = OrderedDict()
        self._lock = threading.Lock()

    def draw(
        self,
        run_dir: Path,
        name: str,
        *,
        x: Axis,
        points: int,
        began_at: float | None,
        epochs: Callable[[], EpochHistory],
    ) -> Curve | None:
        """A series of a run; one that only epoch records have is drawn from these.

        Args:
            run_dir: its directory.
            name: of the series.
            x: what it is drawn over.
            points: the most there should be.
            began_at: wall time at which its time axis begins; the first point when None.
            epochs: gives what its epochs came to, where that is needed.
        """
        with self._lock:
            found = self._source(run_dir, name).refresh()
            self._make_room()
        if len(found.step) == 0:
            step, wall, value = epochs().points(name)
            found = _Points(np.array(step), np.array(wall), np.array(value))
        if len(found.value) == 0:
            return None
        return thin(*_along(found, x, began_at, epochs), points)

    def _source(self, run_dir: Path, name: str) -> _Source:
        key = (str(run_dir), name)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source(run_dir, name)
        self._sources.move_to_end(key)
        return source

    def _make_room(self) -> None:
        while len(self._sources) > 1 and self._held() > self._most_bytes:
            self._sources.popitem(last=False)

    def _held(self) -> int:
        return sum(source.bytes for source in self._sources.values())


def _along(
    found: _Points, x: Axis, began_at: float | None, epochs: Callable[[], EpochHistory]
) -> tuple[Floats, Floats]:
    """Axis and values; points that have no place on the axis are left out."""
    if x == "epoch":
        axis = axis_of_epochs(found.step, epochs())
    elif x == "time":
        start = found.wall[0] if began_at is None else began_at
        # A clock that was set back must not draw a curve backwards.
        axis = np.maximum.accumulate(found.wall - start)
    else:
        axis = found.step
    known = ~np.isnan(axis)
    return (axis, found.value) if known.all() else (axis[known], found.value[known])
