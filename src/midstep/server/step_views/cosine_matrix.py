"""Cosines of all pairs of rows of a tensor, computed from clones in the thread of the request.

Shape suffixes: D rows, I numbers of a row, M cells of a side of the matrix that is shown.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.control.capture.weight_changes import WeightChange
from midstep.core.errors import ConfigError, ControlError
from midstep.server.step_views.force_views import (
    force_columns,
    metric_columns,
    parts_of,
    rows_of,
)

Floats = NDArray[np.float64]
CHUNK = 512
"""Rows of the matrix that are in memory at once while it is averaged."""
MAX_MATRIX_ROWS = 8_192
"""Most rows of an averaged matrix."""
MAX_WHOLE_ROWS = 4_096
"""Most rows of a matrix that is sent or clustered as a whole: 64 MiB as float32."""
MAX_ELEMENTS = 2**25
"""Most elements of the tensor: 256 MiB as float64."""
CELLS = 512
"""Most cells of a side; a larger matrix is averaged unless all cells are requested."""
_ONE_AT_A_TIME = threading.Lock()
"""A large matrix takes memory and cores from the training, so only one is computed at a time."""


@dataclass(frozen=True, kw_only=True)
class OffDiagonal:
    """Statistics of the cosines of different rows, over the whole matrix; None for a single row."""

    mean: float | None
    std: float | None
    max: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Similarity:
    """A matrix of cosines, whole or averaged over blocks."""

    matrix_MM: Any
    """Float32; cell (i, j) is the mean cosine of the rows of block i with those of block j."""
    starts: list[int]
    """Position of the first row of each block."""
    off_diagonal: OffDiagonal


def unit_rows(rows_DI: Any) -> Floats:
    """Rows of norm 1. A zero row stays zero, so its cosines are 0.

    >>> import numpy as np
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows_DI = np.asarray(rows_DI, np.float64)
    with np.errstate(all="ignore"):
        lengths_D = np.sqrt(np.einsum("ij,ij->i", rows_DI, rows_DI))
        unit_DI: Floats = rows_DI / np.where(lengths_D == 0, 1.0, lengths_D)[:, None]
    return unit_DI


def similarity(unit_DI: Floats, *, cells: int) -> Similarity:
    """The matrix of cosines with at most `cells` blocks a side, and its statistics.

    Block sizes differ by at most one row. An averaged matrix is computed in chunks, never whole.
    """
    rows = len(unit_DI)
    side = min(rows, cells)
    starts = [block * rows // side for block in range(side)]
    matrix_MM, sums = np.empty((side, side)), _Sums()
    for first, last in _chunks(starts, rows):
        part = _cosines(unit_DI, starts[first], starts[last] if last < side else rows)
        sums.add(part, starts[first])
        row_starts = [start - starts[first] for start in starts[first:last]]
        matrix_MM[first:last] = _averaged(part, row_starts, starts)
    return Similarity(
        matrix_MM=matrix_MM.astype(np.float32), starts=starts, off_diagonal=sums.result(rows)
    )


def _chunks(starts: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks [first, last) that together have about `CHUNK` rows."""
    blocks = max(1, CHUNK * len(starts) // max(rows, 1))
    for first in range(0, len(starts), blocks):
        yield first, min(first + blocks, len(starts))


def _cosines(unit_DI: Floats, first: int, last: int) -> Floats:
    # Rows with infinite weights give NaN, which the page shows; a warning would only repeat it.
    with np.errstate(all="ignore"):
        return np.asarray(unit_DI[first:last] @ unit_DI.T)


def _averaged(part: Floats, row_starts: Sequence[int], column_starts: Sequence[int]) -> Floats:
    """Means over blocks of rows and columns."""
    if len(row_starts) == part.shape[0] and len(column_starts) == part.shape[1]:
        return part
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(np.add.reduceat(part, row_starts, axis=0), column_starts, axis=1)
    heights = np.diff([*row_starts, part.shape[0]])
    widths = np.diff([*column_starts, part.shape[1]])
    return np.asarray(sums / np.outer(heights, widths))


class _Sums:
    """Sum, squares and maximum of the cells off the diagonal, added chunk by chunk."""

    def __init__(self) -> None:
        self.total = self.squares = 0.0
        self.largest = -math.inf

    def add(self, part: Floats, first: int) -> None:
        """Add rows `first` and following without the diagonal, which is restored afterwards."""
        import numpy as np

        rows = np.arange(len(part))
        diagonal = part[rows, first + rows].copy()
        part[rows, first + rows] = 0.0
        with np.errstate(all="ignore"):
            self.total += float(part.sum())
            self.squares += float(np.square(part).sum())
        part[rows, first + rows] = -np.inf
        self.largest = float(np.maximum(self.largest, part.max()))  # unlike max(), it keeps NaN
        part[rows, first + rows] = diagonal

    def result(self, rows: int) -> OffDiagonal:
        """The statistics of a matrix with this many rows."""
        if rows < 2:
            return OffDiagonal(mean=None, std=None, max=None)
        pairs = rows * (rows - 1)
        mean = self.total / pairs
        spread = self.squares / pairs - mean * mean
        std = math.sqrt(max(spread, 0.0)) if not math.isnan(spread) else math.nan
        return OffDiagonal(mean=mean, std=std, max=self.largest)


def cluster_order(unit_DI: Floats) -> list[int]:
    """Rows in the order of the leaves of their average-linkage tree: similar rows are adjacent.

    The tree is built with the nearest-neighbour chain (Murtagh 1983), whose time grows with the
    square of the number of rows.
    """
    rows = len(unit_DI)
    with np.errstate(all="ignore"):
        near = np.nan_to_num(unit_DI @ unit_DI.T, nan=-2.0)  # below every cosine: NaN joins last
    np.fill_diagonal(near, -np.inf)
    members: list[list[int]] = [[row] for row in range(rows)]
    alive, chain = np.ones(rows, bool), list[int]()
    for _ in range(rows - 1):
        a, b = _nearest_pair(near, alive, chain)
        _merge(near, members, alive, a, b)
    return next((group for group, is_alive in zip(members, alive, strict=True) if is_alive), [])


def _nearest_pair(near: Floats, alive: Any, chain: list[int]) -> tuple[int, int]:
    """Two groups that are each other's nearest neighbours; both are removed from the chain."""
    if not chain:
        chain.append(int(alive.argmax()))
    while True:
        last = chain[-1]
        best = int(near[last].argmax())
        # >=: with equal cosines the previous group wins, otherwise the chain could go in a circle.
        if len(chain) > 1 and near[last, chain[-2]] >= near[last, best]:
            best = chain[-2]
            del chain[-2:]
            return min(last, best), max(last, best)
        chain.append(best)


def _merge(near: Floats, members: list[list[int]], alive: Any, a: int, b: int) -> None:
    """Append group b to group a. Its cosine to another group is the mean over all pairs."""
    weight_a, weight_b = len(members[a]), len(members[b])
    joined = (weight_a * near[a] + weight_b * near[b]) / (weight_a + weight_b)
    joined[[a, b]] = -np.inf
    near[a], near[:, a] = joined, joined
    near[b], near[:, b] = -np.inf, -np.inf
    members[a] += members[b]
    alive[b] = False


class CosineMatrix:
    """Cosines of all pairs of rows of one tensor, in one order.

    Args:
        change: the tensor before and after the step.
        source: `weights`, `som_targets` or `grad_delta`.
        order: `id`, `cluster` or `metric:NAME`.
        full: compute all cells, also above 512 rows.
    """

    def __init__(self, change: WeightChange, source: str, order: str, *, full: bool) -> None:
        self._fields = {
            "step": change.step,
            "source": source,
            "tensor": change.source,
            "order": order,
        }
        _check_size(change, whole=full or order == "cluster")
        with _ONE_AT_A_TIME:
            unit = unit_rows(_chosen_rows(change, source))
            self.permutation = _order(unit, change, order)
            self._similarity = similarity(
                unit[self.permutation], cells=max(len(unit), 1) if full else CELLS
            )

    @property
    def cells_MM(self) -> Any:  # noqa: N802 - the name ends in its shape
        """The cells in float32."""
        return self._similarity.matrix_MM

    @property
    def averaged(self) -> bool:
        """Whether a cell is the mean over a block of pairs of rows."""
        return len(self._similarity.starts) < len(self.permutation)

    def describe(self) -> dict[str, Any]:
        """The fields of `CosineMatrixOut` without the matrix."""
        off, rows = self._similarity.off_diagonal, len(self.permutation)
        cells = len(self._similarity.starts)
        note = f"{rows:,} rows in {cells} blocks: each cell is a mean; the statistics are of all"
        return {
            **self._fields,
            "rows": rows,
            "labels": self._labels(),
            "mean_offdiag": off.mean,
            "std_offdiag": off.std,
            "max_offdiag": off.max,
            "permutation": self.permutation,
            "averaged": self.averaged,
            "note": note if self.averaged else None,
        }

    def _labels(self) -> list[str]:
        if not self.averaged:
            return [str(row) for row in self.permutation]
        starts = self._similarity.starts
        ends = [*starts[1:], len(self.permutation)]
        return [f"{first}-{end - 1}" for first, end in zip(starts, ends, strict=True)]


def _chosen_rows(change: WeightChange, source: str) -> Any:
    if source == "grad_delta" and change.before is change.after:
        raise ControlError(
            f"How the last step moved {change.source} was not kept. Choose source=weights."
        )
    if source == "grad_delta":
        return parts_of(change).grad_delta_DI
    if source == "weights":
        return rows_of(change.after)
    targets = change.extra_target
    if targets is None:
        raise ControlError(f"{_no_targets(change)} Choose source=weights or source=grad_delta.")
    return rows_of(targets)


def _no_targets(change: WeightChange) -> str:
    if change.target_key is None:
        return f"This run has no targets for the rows of {change.source} in step {change.step}."
    # The loop pushes targets only in some of its settings, so the name says what to look for there.
    return f"Step {change.step} has no {change.target_key}, the targets of {change.source}."


def _check_size(change: WeightChange, *, whole: bool) -> None:
    rows, elements = len(change.after), change.after.numel()
    limit = MAX_WHOLE_ROWS if whole else MAX_MATRIX_ROWS
    if rows > limit:
        how = "as a whole or clustered " if whole else ""
        raise ControlError(
            f"{change.source} has {rows:,} rows; cosines of all pairs {how}are computed up to "
            f"{limit:,}"
        )
    if elements > MAX_ELEMENTS:
        raise ControlError(
            f"{change.source} has {elements:,} elements; cosines of all pairs of rows are computed "
            f"up to {MAX_ELEMENTS:,}"
        )


def _order(unit: Any, change: WeightChange, order: str) -> list[int]:
    """Row numbers in the requested order; by a metric the largest comes first."""
    if order == "id":
        return list(range(len(unit)))
    if order == "cluster":
        return cluster_order(unit)
    name = order.removeprefix("metric:")
    known = _order_columns(change)
    if name not in known or len(known[name]) != len(unit):
        raise ConfigError(
            f"no metric {name!r} of the rows of {change.source}; there are {', '.join(known)}"
        )
    return [int(row) for row in np.argsort(-np.asarray(known[name], np.float64), kind="stable")]


def _order_columns(change: WeightChange) -> dict[str, Any]:
    if change.before is None:
        return metric_columns(change, len(change.after))
    columns = force_columns(change)[0]
    return {name: column for name, column in columns.items() if name != "verdict"}
