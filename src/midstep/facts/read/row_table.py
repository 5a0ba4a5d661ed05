"""Rows of one layout in memory: all of them, or a bounded number with older rows as extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from midstep.facts.read.step_columns import Rows

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
FIRST_WIDTH = 4
"""Rows that become one pair of extremes when a table is full for the first time."""


class Points(NamedTuple):
    """Every point of a series in order of steps. The arrays are not written to again."""

    step: Integers
    value: Floats
    wall: Floats
    """Wall times; empty unless the store keeps them."""


class RowTable:
    """Rows with the same names, in growing arrays.

    Args:
        names: the names of the values in a row.
        only: keep this value alone.
        with_wall: keep wall times too.
        most_rows: if there are more, older rows are replaced by pairs of the lowest and the highest
            value of several rows, so that no spike is lost; None keeps every row.
    """

    def __init__(
        self, names: tuple[str, ...], *, only: str | None, with_wall: bool, most_rows: int | None
    ) -> None:
        kept_names = names if only is None else (only,)
        self._position = {name: index for index, name in enumerate(kept_names)}
        self._source = slice(None) if only is None else [names.index(only)]
        self._most_rows = most_rows
        self.size = self._room = 0
        self.is_rising = True
        """Whether each step is higher than the one before, so that no row replaces another."""
        self.left_out = 0
        """Rows of which only the extremes are kept, less the rows that hold those."""
        self._extremes, self._width = 0, FIRST_WIDTH
        """How many rows at the start hold extremes, and of how many rows each pair does."""
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
        if self._most_rows is not None:
            more_to_come = 0
        start, stop = self.size, self.size + len(rows)
        if stop > self._room:
            self._make_room(stop + more_to_come)
        for field, column in self._columns.items():
            column[start:stop] = rows[field]
        self._values[:, start:stop] = rows["values"][:, self._source].T
        self.size = stop
        steps = self._columns["step"][max(0, start - 1) : stop]
        self.is_rising = self.is_rising and bool((steps[1:] > steps[:-1]).all())
        if self._most_rows is not None and self.size > self._most_rows:
            self._thin(self._most_rows)

    def _make_room(self, wanted: int) -> None:
        # New arrays, never a resize: readers may still hold views of the old ones.
        self._room = max(wanted, 2 * self._room, 8)
        for field, column in self._columns.items():
            self._columns[field] = _grown(column, self._room, self.size)
        self._values = _grown(self._values, self._room, self.size)

    def exact_from(self) -> int | None:
        """The first step from which on every row is here; None if all of them are."""
        if not self._extremes:
            return None
        return int(self._columns["step"][self._extremes : self.size].min(initial=2**62))

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

    # -- a bounded number of rows -----------------------------------------------------------------

    def _thin(self, most_rows: int) -> None:
        """Keep a quarter of the rows as they are, and extremes of all older ones."""
        self._drop_replaced()
        while self.size > most_rows * 3 // 4:
            if self._extremes > most_rows // 4:
                self._pair_up(0, self._extremes - self._extremes % 4, 4)
                self._width *= 2
            else:
                older = self.size - self._extremes - most_rows // 4
                width = min(self._width, 1 << (older.bit_length() - 1))
                stop = self._extremes + older - older % width
                self._pair_up(self._extremes, stop, width)
        steps = self._rows("step")
        self.is_rising = bool((steps[1:] > steps[:-1]).all())

    def _drop_replaced(self) -> None:
        """Remove the rows of rewound steps: those of steps that a later timeline has too.

        Afterwards fewer steps are left of each timeline, so they could not be matched any more.
        """
        if self.is_rising:
            return
        step, timeline = self._rows("step"), self._rows("timeline")
        is_replaced = np.zeros(self.size, np.bool_)
        for each in np.unique(timeline)[1:].tolist():
            own = step[timeline == each]
            is_replaced |= (timeline < each) & (step >= own.min()) & (step <= own.max())
        kept = np.flatnonzero(~is_replaced)
        self._extremes = int(np.searchsorted(kept, self._extremes))
        self._select(lambda column: column[..., kept])

    def _pair_up(self, start: int, stop: int, width: int) -> None:
        """Replace each `width` rows from `start` up to `stop` by their lowest and highest values.

        The two stand at the step of the first row and of the row in the middle.
        """
        pairs = (stop - start) // width
        groups = self._values[:, start:stop].reshape(len(self._values), pairs, width)
        values = np.empty((len(self._values), 2 * pairs))
        # `fmin`: a pair ignores NaN unless it holds nothing else.
        values[:, 0::2], values[:, 1::2] = np.fmin.reduce(groups, 2), np.fmax.reduce(groups, 2)
        first = np.arange(start, stop, width)
        taken = np.stack((first, first + width // 2), axis=1).reshape(-1)

        def shortened(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            own = values if column.ndim == 2 else column[taken]
            parts = (column[..., :start], own, column[..., stop : self.size])
            return np.concatenate(parts, axis=-1)

        self._select(shortened)
        self._extremes += 2 * pairs - (stop - start if stop <= self._extremes else 0)
        self.left_out += (stop - start) - 2 * pairs

    def _select(self, choose: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        """Replace every column by what `choose` makes of it; the arrays in use stay as they are."""
        self._values = choose(self._values[:, : self.size])
        self._columns = {
            name: choose(column[: self.size]) for name, column in self._columns.items()
        }
        self.size = self._room = self._values.shape[1]


def _grown(array: npt.NDArray[Any], room: int, size: int) -> npt.NDArray[Any]:
    larger = np.empty((*array.shape[:-1], room), array.dtype)
    larger[..., :size] = array[..., :size]
    return larger
