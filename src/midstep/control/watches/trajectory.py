"""Points over steps, stored in columns: of one watched row, or of one pair of rows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

EXACT_POINTS = 10_000
MAX_METRICS = 32
"""Limit of metrics per row, so that its memory is bounded."""
Point = dict[str, float]
Number = TypeVar("Number", int, float)
NO_METRICS: Mapping[str, float] = MappingProxyType({})
NAN = float("nan")


class Trajectory:
    """One value per step with metrics: exact up to 10,000 points, then thinned.

    Columns are arrays of 8 bytes a number, because a dict per point would need far more memory.
    Not thread-safe: its owner locks.

    >>> path = Trajectory("cos")
    >>> path.append(1, 0.5, {"win_rate": 0.25})
    >>> path.append(2, 0.75)
    >>> path.points()
    [{'step': 1, 'cos': 0.5, 'win_rate': 0.25}, {'step': 2, 'cos': 0.75}]
    """

    __slots__ = ("metrics", "name", "steps", "values")

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = array("q")
        self.values = array("d")
        self.metrics: dict[str, array[float]] = {}
        """Columns of metrics; NaN where a step has no value."""

    def __len__(self) -> int:
        """How many points are kept."""
        return len(self.steps)

    def append(self, step: int, value: float, metrics: Mapping[str, float] = NO_METRICS) -> None:
        """Add a point; beyond 10,000 every second one is dropped."""
        self.steps.append(step)
        self.values.append(value)
        if metrics or self.metrics:
            self._append_metrics(metrics)
        if len(self.steps) > EXACT_POINTS:
            self._halve()

    def _append_metrics(self, metrics: Mapping[str, float]) -> None:
        for name in metrics.keys() - self.metrics.keys():
            if len(self.metrics) < MAX_METRICS:
                self.metrics[name] = array("d", [NAN]) * (len(self.steps) - 1)
        for name, column in self.metrics.items():
            column.append(metrics.get(name, NAN))

    def _halve(self) -> None:
        import numpy as np

        # Halving doubles the room, so that its cost per point stays constant. Extremes are kept:
        # a spike must not vanish from the chart.
        kept = np.zeros(len(self), dtype=np.bool_)
        kept[::2] = True
        kept[[-1, *self._extremes()]] = True
        self._keep(kept)

    def _extremes(self) -> Iterable[int]:
        """Positions of the minimum and maximum of each column, those of the values first."""
        import numpy as np

        for column in (self.values, *self.metrics.values()):
            held = np.frombuffer(column)
            finite = np.isfinite(held)
            if finite.all():
                yield from (int(held.argmin()), int(held.argmax()))
            elif finite.any():
                yield int(np.where(finite, held, np.inf).argmin())
                yield int(np.where(finite, held, -np.inf).argmax())

    def _keep(self, kept: Mask) -> None:
        self.steps = _masked_copy(self.steps, kept)
        self.values = _masked_copy(self.values, kept)
        self.metrics = {name: _masked_copy(column, kept) for name, column in self.metrics.items()}

    def copy(self) -> Trajectory:
        """A copy that shares no memory."""
        copied = Trajectory(self.name)
        copied.steps, copied.values = self.steps[:], self.values[:]
        copied.metrics = {name: column[:] for name, column in self.metrics.items()}
        return copied

    def cut_after(self, step: int) -> None:
        """Drop the points after `step`.

        >>> path = Trajectory("cos")
        >>> path.append(1, 0.5), path.append(2, 0.75)
        (None, None)
        >>> path.cut_after(1)
        >>> path.points()
        [{'step': 1, 'cos': 0.5}]
        """
        kept = bisect_right(self.steps, step)  # steps ascend: points after a rewind are cut first
        self.steps, self.values = self.steps[:kept], self.values[:kept]
        self.metrics = {name: column[:kept] for name, column in self.metrics.items()}

    def thin(self, points: int) -> bool:
        """Keep `points` points: first, last, extremes, others evenly. False if all are kept."""
        import numpy as np

        if len(self) <= points:
            return False
        last = len(self) - 1
        # These come first if `points` does not reach for all.
        first_choice = list(dict.fromkeys([0, last, *self._extremes()]))[:points]
        kept = np.zeros(len(self), dtype=np.bool_)
        kept[np.linspace(0, last, points - len(first_choice)).astype(np.int64)] = True
        kept[first_choice] = True
        self._keep(kept)
        return True

    def columns(self) -> dict[str, array[int] | array[float]]:
        """All columns by name, `step` first."""
        return {"step": self.steps, self.name: self.values, **self.metrics}

    def points(self) -> list[Point]:
        """One dict per point; a metric without a value is left out."""
        points: list[Point] = [
            {"step": step, self.name: value}
            for step, value in zip(self.steps, self.values, strict=True)
        ]
        for name, column in self.metrics.items():
            for point, value in zip(points, column, strict=True):
                if value == value:  # noqa: PLR0124 - only NaN, the gap, differs from itself
                    point[name] = value
        return points


def _masked_copy(column: array[Number], kept: Mask) -> array[Number]:
    """The elements that are kept."""
    import numpy as np

    # The view must be gone before the next append: an array with an exported buffer cannot grow.

    held = np.frombuffer(column, dtype=np.dtype(column.typecode))
    copy = column[:0]
    copy.frombytes(held[kept].tobytes())
    return copy
