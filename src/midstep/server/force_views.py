"""Forces on the rows of a tensor as answers, computed in the reader's thread from clones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.server.arrays import as_array, numbers, shape_of
from midstep.server.two_forces import (
    NEUTRAL_COSINE,
    NEUTRAL_SHARE,
    TwoForces,
    judge,
    norms,
    row_cosines,
    split_change,
)

if TYPE_CHECKING:
    from midstep.control.changes import Change

__all__ = [
    "MAX_ROW_LENGTH",
    "describe_detail",
    "describe_forces",
    "force_columns",
    "parts_of",
    "rows_of",
    "told_columns",
]

MAX_TABLE_ROWS = 100_000
MAX_ROW_LENGTH = 65_536
"""Of a row in JSON; longer ones travel as safetensors."""
CHUNK_ELEMENTS = 4_000_000
"""Of the rows that are held in float64 at once."""


def describe_forces(change: Change, tensors: list[str]) -> dict[str, Any]:
    """The fields of `ForcesOut`."""
    columns, thresholds = force_columns(change)
    rows = len(columns["id"])
    shown = {name: column[:MAX_TABLE_ROWS] for name, column in columns.items()}
    verdicts = columns["verdict"]
    return {
        "step": change.step,
        "tensor": change.source,
        "tensors": tensors,
        "features": {name: _listed(column) for name, column in shown.items()},
        **{word: verdicts.count(word) for word in ("agree", "fight", "neutral")},
        "thresholds": thresholds,
        "rows": rows,
        "note": _cut_note(rows) or change.note,
    }


def _cut_note(rows: int) -> str | None:
    if rows <= MAX_TABLE_ROWS:
        return None
    return f"the first {MAX_TABLE_ROWS:,} of {rows:,} rows; the counts are of all"


def _listed(column: Any) -> list[Any]:
    return column if isinstance(column, list) else numbers(column)


def force_columns(change: Change) -> tuple[dict[str, Any], dict[str, float]]:
    """Columns of one value per row, and the thresholds of the verdicts."""
    import numpy as np

    told = told_columns(change, len(change.after))
    grad_norm, som_norm, cosine = _measures(change)
    columns: dict[str, Any] = {
        "id": list(range(len(grad_norm))),
        "grad_magnitude": told.pop("grad_magnitude", grad_norm),
        "som_magnitude": told.pop("som_magnitude", som_norm),
        "cos_grad_som": cosine,
    }
    found = judge(*(np.asarray(columns[name]) for name in list(columns)[1:]))
    columns |= {"verdict": found.verdict_D, "grad_norm": grad_norm, "som_norm": som_norm}
    thresholds = {
        "cos": NEUTRAL_COSINE,
        "share_of_median": NEUTRAL_SHARE,
        "grad_magnitude": found.least_grad,
        "som_magnitude": found.least_som,
    }
    return {**columns, **{name: told[name] for name in told if name not in columns}}, thresholds


def _measures(change: Change) -> tuple[Any, Any, Any]:
    """Norms of both parts and their cosine, some rows at a time: in float64 they are large."""
    import numpy as np

    rows, length = len(change.after), max(1, change.after[:1].numel())
    at_once = max(1, CHUNK_ELEMENTS // length)
    measured: list[list[Any]] = [[np.zeros(0)], [np.zeros(0)], [np.zeros(0)]]
    for first in range(0, rows, at_once):
        parts = parts_of(_only(change, slice(first, first + at_once)))
        both = parts.grad_delta_DI, parts.som_delta_DI
        for column, found in zip(
            measured, (norms(both[0]), norms(both[1]), row_cosines(*both)), strict=True
        ):
            column.append(found)
    grad_norm, som_norm, cosine = (np.concatenate(column) for column in measured)
    return grad_norm, som_norm, cosine


def told_columns(change: Change, rows: int) -> dict[str, Any]:
    """What the loop says of the rows: vectors of real numbers with one value each."""
    import numpy as np

    told = {}
    for name, held in change.metrics.items():
        if isinstance(name, str) and getattr(held, "ndim", None) == 1 and len(held) == rows:
            column = as_array(held)
            if column.dtype.kind in "fiub":
                told[name] = column.astype(np.float64)
    return told


def rows_of(tensor: Any) -> Any:
    """Rows are dim 0, the rest is flattened."""
    array = as_array(tensor)
    return array.reshape(len(array), array[:1].size)


def parts_of(change: Change) -> TwoForces:
    """The change of every row in its two parts, all in float64."""
    som_delta = change.tensors.get("som_delta")
    fits = som_delta is not None and shape_of(som_delta) == shape_of(change.after)
    return split_change(
        rows_of(change.before), rows_of(change.after), rows_of(som_delta) if fits else None
    )


def describe_detail(change: Change, feature: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain fields of `ForceDetailOut`, and its arrays."""
    rows = len(change.after)
    if feature >= rows:
        raise ConfigError(f"{change.source} has {rows} rows; there is no feature {feature}")
    parts = parts_of(_only(change, slice(feature, feature + 1)))
    cosine = row_cosines(parts.grad_delta_DI, parts.som_delta_DI)
    plain = {
        "step": change.step,
        "tensor": change.source,
        "feature": feature,
        "cos_grad_som": float(cosine[0]),
        "row_shape": shape_of(change.after)[1:],
    }
    return plain, {
        "grad_delta": parts.grad_delta_DI[0],
        "som_delta": parts.som_delta_DI[0],
        "combined": parts.combined_DI[0],
        "current_weight": rows_of(change.after[feature : feature + 1])[0],
    }


def _only(change: Change, row: slice) -> Change:
    """The same change of some rows."""
    som_delta = change.tensors.get("som_delta")
    fits = som_delta is not None and shape_of(som_delta) == shape_of(change.after)
    return replace(
        change,
        before=change.before[row],
        after=change.after[row],
        tensors={"som_delta": som_delta[row]} if som_delta is not None and fits else {},
    )
