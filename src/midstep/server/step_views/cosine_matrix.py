"""How alike the rows of a tensor are, computed in the reader's thread from clones."""

# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, ControlError
from midstep.server.step_views.force_views import force_columns, parts_of, rows_of, told_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from midstep.control.capture.weight_changes import WeightChange

    Floats = NDArray[np.float64]


CHUNK = 512
"""Rows of the matrix that are in memory at once when it is averaged."""


@dataclass(frozen=True, kw_only=True)
class OffDiagonal:
    """Of the cosines of different rows, counted over the whole matrix; None for a single row."""

    mean: float | None
    std: float | None
    max: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Similarity:
    """A matrix as it is shown."""

    matrix_MM: Any
    """Float32; cell (i, j) is the mean cosine of the rows of block i with those of block j."""
    starts: list[int]
    """Where each block begins, in the order of the rows."""
    off_diagonal: OffDiagonal


def unit_rows(rows_DI: Any) -> Floats:
    """Rows of length one; a zero row stays zero, so its cosine with all is 0.

    >>> import numpy as np
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    import numpy as np

    rows_DI = np.asarray(rows_DI, np.float64)
    with np.errstate(all="ignore"):
        lengths_D = np.sqrt(np.einsum("ij,ij->i", rows_DI, rows_DI))
        found: Floats = rows_DI / np.where(lengths_D == 0, 1.0, lengths_D)[:, None]
    return found


def similarity(unit_DI: Floats, *, cells: int) -> Similarity:
    """The matrix of cosines with at most `cells` blocks a side, and its statistics.

    The blocks are as equal as can be. The whole matrix is never held when it is averaged.
    """
    import numpy as np

    rows = len(unit_DI)
    side = min(rows, cells)
    starts = [place * rows // side for place in range(side)]
    matrix_MM, sums = np.empty((side, side)), _Sums()
    for first, last in _chunks(starts, rows):
        part = _cosines(unit_DI, starts[first], starts[last] if last < side else rows)
        sums.add(part, starts[first])
        cut = [start - starts[first] for start in starts[first:last]]
        matrix_MM[first:last] = _averaged(part, cut, starts)
    return Similarity(
        matrix_MM=matrix_MM.astype(np.float32), starts=starts, off_diagonal=sums.result(rows)
    )


def _chunks(starts: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Runs of blocks [first, last) that together hold some `CHUNK` rows."""
    blocks = max(1, CHUNK * len(starts) // max(rows, 1))
    for first in range(0, len(starts), blocks):
        yield first, min(first + blocks, len(starts))


def _cosines(unit_DI: Floats, first: int, last: int) -> Floats:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.asarray(unit_DI[first:last] @ unit_DI.T)


def _averaged(part: Floats, row_starts: Sequence[int], column_starts: Sequence[int]) -> Floats:
    """Means over blocks of rows and columns."""
    import numpy as np

    if len(row_starts) == part.shape[0] and len(column_starts) == part.shape[1]:
        return part
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(np.add.reduceat(part, row_starts, axis=0), column_starts, axis=1)
    heights = np.diff([*row_starts, part.shape[0]])
    widths = np.diff([*column_starts, part.shape[1]])
    return np.asarray(sums / np.outer(heights, widths))


class _Sums:
    """Sum, squares and maximum off the diagonal, chunk by chunk."""

    def __init__(self) -> None:
        self.total = self.squares = 0.0
        self.largest = -math.inf

    def add(self, part: Floats, first: int) -> None:
        """Take in rows `first` and following; the diagonal is left out."""
        import numpy as np

        own = np.arange(len(part))
        diagonal = part[own, first + own].copy()
        part[own, first + own] = 0.0
        with np.errstate(all="ignore"):
            self.total += float(part.sum())
            self.squares += float(np.square(part).sum())
        part[own, first + own] = -np.inf
        self.largest = float(np.maximum(self.largest, part.max()))  # NaN stays NaN
        part[own, first + own] = diagonal

    def result(self, rows: int) -> OffDiagonal:
        """The statistics of a matrix of so many rows."""
        if rows < 2:
            return OffDiagonal(mean=None, std=None, max=None)
        pairs = rows * (rows - 1)
        mean = self.total / pairs
        spread = self.squares / pairs - mean * mean
        std = math.sqrt(max(spread, 0.0)) if not math.isnan(spread) else math.nan
        return OffDiagonal(mean=mean, std=std, max=self.largest)


def cluster_order(unit_DI: Floats) -> list[int]:
    """Rows in the order of the leaves of their average-linkage tree: like stands beside like.

    The tree is built by following nearest neighbours until two are each other's nearest, which
    takes time in the square of the rows (Murtagh 1983, the nearest-neighbour chain).
    """
    import numpy as np

    rows = len(unit_DI)
    with np.errstate(all="ignore"):
        near = np.nan_to_num(unit_DI @ unit_DI.T, nan=-2.0)  # what is not a number joins last
    np.fill_diagonal(near, -np.inf)
    members: list[list[int]] = [[row] for row in range(rows)]
    alive, chain = np.ones(rows, bool), list[int]()
    for _ in range(rows - 1):
        a, b = _nearest_pair(near, alive, chain)
        _merge(near, members, alive, a, b)
    return next((held for held, there in zip(members, alive, strict=True) if there), [])


def _nearest_pair(near: Floats, alive: Any, chain: list[int]) -> tuple[int, int]:
    """Two groups that are each other's nearest; both leave the chain."""
    if not chain:
        chain.append(int(alive.argmax()))
    while True:
        last = chain[-1]
        best = int(near[last].argmax())
        if len(chain) > 1 and near[last, chain[-2]] >= near[last, best]:
            best = chain[-2]
            del chain[-2:]
            return min(last, best), max(last, best)
        chain.append(best)


def _merge(near: Floats, members: list[list[int]], alive: Any, a: int, b: int) -> None:
    """Put group b behind group a; the mean cosine to any other is that of all their pairs."""
    import numpy as np

    weight_a, weight_b = len(members[a]), len(members[b])
    joined = (weight_a * near[a] + weight_b * near[b]) / (weight_a + weight_b)
    joined[[a, b]] = -np.inf
    near[a], near[:, a] = joined, joined
    near[b], near[:, b] = -np.inf, -np.inf
    members[a] += members[b]
    alive[b] = False


MAX_MATRIX_ROWS = 8_192
MAX_WHOLE_ROWS = 4_096
"""Rows of a matrix that is sent or clustered as a whole: 64 MiB as float32."""
MAX_ELEMENTS = 2**25
"""Of the tensor: 256 MiB in float64."""
CELLS = 512
"""Of a side, above which the matrix is averaged."""
_ONE_AT_A_TIME = threading.Lock()
"""Large matrices take memory and cores from the training; two at once would take them twice."""


class Matrix:
    """Cosines of all pairs of rows of one tensor, in one order.

    Args:
        change: the tensor.
        source: `weights`, `som_targets` or `grad_delta`.
        order: `id`, `cluster` or `metric:NAME`.
        full: whether all cells are wanted, however many.
    """

    def __init__(self, change: WeightChange, source: str, order: str, *, full: bool) -> None:
        self._about = {
            "step": change.step,
            "source": source,
            "tensor": change.source,
            "order": order,
        }
        _check_size(change, whole=full or order == "cluster")
        with _ONE_AT_A_TIME:
            unit = unit_rows(_chosen_rows(change, source))
            self.permutation = _order(unit, change, order)
            self.found: Similarity = similarity(
                unit[self.permutation], cells=max(len(unit), 1) if full else CELLS
            )

    @property
    def averaged(self) -> bool:
        """Whether a cell stands for a block of pairs."""
        return len(self.found.starts) < len(self.permutation)

    def describe(self) -> dict[str, Any]:
        """The plain fields of `CosineMatrixOut`."""
        off, rows = self.found.off_diagonal, len(self.permutation)
        cells = len(self.found.starts)
        note = f"{rows:,} rows in {cells} blocks: each cell is a mean; the statistics are of all"
        return {
            **self._about,
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
        ends = [*self.found.starts[1:], len(self.permutation)]
        return [f"{first}-{last - 1}" for first, last in zip(self.found.starts, ends, strict=True)]


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
        raise ControlError(
            f"{change.source} has no SOM targets in step {change.step}: no competition pulls it. "
            "Choose source=weights or source=grad_delta."
        )
    return rows_of(targets)


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
    """Row numbers in the order asked for; by a metric the largest comes first."""
    import numpy as np

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
        return told_columns(change, len(change.after))
    columns = force_columns(change)[0]
    return {name: column for name, column in columns.items() if name != "verdict"}
