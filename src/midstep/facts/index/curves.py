"""Curves of runs, drawn over each other: one series over steps, epochs or time.

The points of recent curves are kept in memory, so that drawing a live run again reads only what is
new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from midstep.facts.index.epoch_history import EpochHistory
from midstep.facts.read.row_table import Floats
from midstep.facts.read.series import Series, SeriesStore, downsample

Axis = Literal["step", "epoch", "time"]
MOST_BYTES = 512 << 20
"""Size of the points that are kept in memory."""


class CurveCache:
    """Points of the curves that were drawn last. Safe to use from several threads.

    Args:
        most_bytes: size of the points that are kept.
        most_rows: points of one curve that are kept, with extremes of older ones; None for all.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_rows: int | None = None) -> None:
        self._most_bytes, self._most_rows = most_bytes, most_rows
        self._stores: OrderedDict[tuple[str, str], SeriesStore] = OrderedDict()
        self._lock = threading.Lock()

    def curve(
        self,
        run_dir: Path,
        name: str,
        *,
        x: Axis,
        points: int,
        began_at: float | None,
        epochs: Callable[[], EpochHistory],
    ) -> Series | None:
        """One series of a run; if no step has it, its values in the epoch records.

        Args:
            run_dir: the run directory.
            name: the series.
            x: the axis.
            points: the most points; beyond that, min/max buckets, so that no spike is lost.
            began_at: wall time at which the time axis begins; None for the first point.
            epochs: gives the epochs of the run; called only when they are needed.
        """
        with self._lock:
            # One series for each store: a run may have hundreds, and a curve needs one of them.
            store = self._store(run_dir, name)
            store.refresh()
            logged = store.points(name)
            self._make_room()
        if logged is not None:
            step, value, wall = logged.step.astype(np.float64), logged.value, logged.wall
        else:
            step, wall, value = map(np.array, epochs().points(name))
        if len(value) == 0:
            return None
        axis = _axis(step, wall, x, began_at, epochs)
        # Before the first end of an epoch a point has no place on the epoch axis.
        is_known = ~np.isnan(axis)
        return downsample(axis[is_known], value[is_known], points)

    def _store(self, run_dir: Path, name: str) -> SeriesStore:
        key = (str(run_dir), name)
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = SeriesStore(
                run_dir, only=name, with_wall=True, most_rows=self._most_rows
            )
        self._stores.move_to_end(key)
        return store

    def _make_room(self) -> None:
        while len(self._stores) > 1 and self._held_bytes() > self._most_bytes:
            self._stores.popitem(last=False)

    def _held_bytes(self) -> int:
        return sum(store.bytes for store in self._stores.values())


def _axis(
    step: Floats,
    wall: Floats,
    x: Axis,
    began_at: float | None,
    epochs: Callable[[], EpochHistory],
) -> Floats:
    """The position of each point on the axis; NaN if it has none."""
    if x == "epoch":
        return epoch_axis(step, epochs())
    if x == "time":
        start = wall[0] if began_at is None else began_at
        # A clock that was set back must not draw a curve backwards.
        return np.maximum.accumulate(wall - start)
    return step


def epoch_axis(step: Floats, history: EpochHistory) -> Floats:
    """Finished epochs at each step; NaN if no epoch has ended yet.

    Straight lines between the ends of epochs. After the last end the line continues with the
    slope of the last epoch.

    >>> history = EpochHistory()
    >>> history.add({"epoch": 0, "timeline": 0, "step": 10, "wall": 0.0}, {"loss": 1.0})
    >>> epoch_axis(np.array([5.0, 10.0, 20.0]), history).tolist()
    [0.5, 1.0, 2.0]
    """
    ends = {0.0: 0.0}  # step 0 is the beginning of epoch 0
    for epoch, last in history.ends():
        ends[last] = epoch + 1.0
    if len(ends) < 2:
        return np.full(len(step), np.nan)
    steps, epochs = np.array(sorted(ends)), np.array([ends[each] for each in sorted(ends)])
    axis: Floats = np.interp(step, steps, epochs)
    slope = (epochs[-1] - epochs[-2]) / (steps[-1] - steps[-2])
    is_later = step > steps[-1]
    axis[is_later] = epochs[-1] + slope * (step[is_later] - steps[-1])
    return axis
