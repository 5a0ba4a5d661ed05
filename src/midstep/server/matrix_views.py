"""How alike the rows of a tensor are, computed in the reader's thread from clones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, ControlError
from midstep.server.cosine import Similarity, cluster_order, similarity, unit_rows
from midstep.server.force_views import force_columns, parts_of, rows_of, told_columns

if TYPE_CHECKING:
    from midstep.control.changes import Change

__all__ = ["Matrix"]

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

    def __init__(self, change: Change, source: str, order: str, *, full: bool) -> None:
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


def _chosen_rows(change: Change, source: str) -> Any:
    if source == "grad_delta" and change.before is change.after:
        raise ControlError(
            f"How the last step moved {change.source} was not kept. Choose source=weights."
        )
    if source == "grad_delta":
        return parts_of(change).grad_delta_DI
    if source == "weights":
        return rows_of(change.after)
    targets = change.tensors.get("som_targets")
    if targets is None:
        raise ControlError(
            f"{change.source} has no SOM targets in step {change.step}: no competition pulls it. "
            "Choose source=weights or source=grad_delta."
        )
    return rows_of(targets)


def _check_size(change: Change, *, whole: bool) -> None:
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


def _order(unit: Any, change: Change, order: str) -> list[int]:
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


def _order_columns(change: Change) -> dict[str, Any]:
    if change.before is None:
        return told_columns(change, len(change.after))
    columns = force_columns(change)[0]
    return {name: column for name, column in columns.items() if name != "verdict"}
