"""The forces on the rows of a tensor, computed from clones in the thread of the request.

A step changes a row by two forces: the gradient (with the scaling of the optimizer), and the update
that the loop adds besides, `som_delta`. Shape suffixes: D rows, I numbers of a row.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.control.capture.weight_changes import WeightChange
from midstep.core.errors import ConfigError
from midstep.server.array_json import as_array, numbers, shape_of

Floats = NDArray[np.float64]
NEUTRAL_COSINE = 0.05
"""Directions with a smaller absolute cosine count as unrelated."""
NEUTRAL_SHARE = 0.01
"""A force up to this share of its median over the rows counts as zero."""
Verdict = Literal["agree", "fight", "neutral"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoForces:
    """The change of every row by one step, in its two parts."""

    grad_delta_DI: Floats
    som_delta_DI: Floats
    combined_DI: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdicts:
    """Whether the two forces on each row agree."""

    verdict_D: list[Verdict]
    least_grad: float
    """Gradient magnitudes up to this count as zero."""
    least_som: float


def split_change(before: Any, after: Any, som_delta: Any | None) -> TwoForces:
    """The two parts of a change: the gradient's part is the change without `som_delta`.

    >>> import numpy as np
    >>> parts = split_change(np.zeros((1, 2)), np.array([[3.0, 1.0]]), np.array([[1.0, 1.0]]))
    >>> parts.grad_delta_DI.tolist()
    [[2.0, 0.0]]
    """
    after_DI = np.asarray(after, np.float64)
    with np.errstate(all="ignore"):  # weights may be infinite, and then changes are NaN or infinite
        combined_DI = after_DI - np.asarray(before, np.float64)
        som_DI = (
            np.zeros_like(after_DI)
            if som_delta is None
            else np.asarray(som_delta, np.float64).reshape(after_DI.shape)
        )
        return TwoForces(
            grad_delta_DI=combined_DI - som_DI, som_delta_DI=som_DI, combined_DI=combined_DI
        )


def row_cosines(a_DI: Floats, b_DI: Floats) -> Floats:
    """Cosine of each row of `a` with the same row of `b`; 0 if one of them is zero.

    >>> import numpy as np
    >>> row_cosines(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    with np.errstate(all="ignore"):
        # Scaled first: the squares of very small changes would underflow to 0.
        a_DI, b_DI = _scaled(a_DI), _scaled(b_DI)
        dots_D = np.einsum("ij,ij->i", a_DI, b_DI)
        lengths_D = norms(a_DI) * norms(b_DI)
        return np.where(lengths_D == 0, 0.0, dots_D / np.where(lengths_D == 0, 1.0, lengths_D))


def norms(rows_DI: Floats) -> Floats:
    """The Euclidean norm of each row."""
    with np.errstate(all="ignore"):
        norms_D: Floats = np.sqrt(np.einsum("ij,ij->i", rows_DI, rows_DI))
    return norms_D


def _scaled(rows_DI: Floats) -> Floats:
    """Each row divided by its largest absolute number; a zero row stays zero."""
    if rows_DI.shape[1] == 0:
        return rows_DI
    largest_D = np.abs(rows_DI).max(axis=1, keepdims=True)
    return rows_DI / np.where(largest_D == 0, 1.0, largest_D)


def judge(grad_magnitude_D: Floats, som_magnitude_D: Floats, cosine_D: Floats) -> Verdicts:
    """`agree` or `fight` by the sign of the cosine; `neutral` if it or one force is too small.

    >>> import numpy as np
    >>> judge(np.ones(3), np.ones(3), np.array([0.9, -0.9, 0.01])).verdict_D
    ['agree', 'fight', 'neutral']
    """
    least_grad, least_som = _least(grad_magnitude_D), _least(som_magnitude_D)
    acts_D = (grad_magnitude_D > least_grad) & (som_magnitude_D > least_som)
    verdict_D: list[Verdict] = [
        "neutral"
        if not acts or not abs(cosine) >= NEUTRAL_COSINE  # also where it is NaN
        else "agree"
        if cosine > 0
        else "fight"
        for acts, cosine in zip(acts_D.tolist(), cosine_D.tolist(), strict=True)
    ]
    return Verdicts(verdict_D=verdict_D, least_grad=least_grad, least_som=least_som)


def _least(magnitude_D: Floats) -> float:
    """The largest magnitude that counts as zero: a share of the median, which may itself be 0."""
    known = magnitude_D[np.isfinite(magnitude_D)]
    return NEUTRAL_SHARE * float(np.median(known)) if len(known) else 0.0


MAX_TABLE_ROWS = 100_000
"""Rows in the table; the counts cover all rows."""
MAX_ROW_LENGTH = 65_536
"""Numbers of a row in JSON; a longer row is sent as safetensors."""
CHUNK_ELEMENTS = 4_000_000
"""Elements that are converted to float64 at once: 32 MB."""


def describe_forces(change: WeightChange, tensors: list[str]) -> dict[str, Any]:
    """The fields of `ForcesOut`."""
    columns, thresholds = force_columns(change)
    rows = len(columns["id"])
    shown = {name: column[:MAX_TABLE_ROWS] for name, column in columns.items()}
    verdicts = columns["verdict"]
    cut_note = f"the first {MAX_TABLE_ROWS:,} of {rows:,} rows; the counts are of all"
    return {
        "step": change.step,
        "tensor": change.source,
        "tensors": tensors,
        "features": {
            name: column if isinstance(column, list) else numbers(column)
            for name, column in shown.items()
        },
        **{word: verdicts.count(word) for word in ("agree", "fight", "neutral")},
        "thresholds": thresholds,
        "rows": rows,
        "note": cut_note if rows > MAX_TABLE_ROWS else change.note,
    }


def force_columns(change: WeightChange) -> tuple[dict[str, Any], dict[str, float]]:
    """Columns of one value per row, and the thresholds of the verdicts."""
    pushed = metric_columns(change, len(change.after))
    grad_norm, som_norm, cosine = _measures(change)
    columns: dict[str, Any] = {
        "id": list(range(len(grad_norm))),
        "grad_magnitude": pushed.pop("grad_magnitude", grad_norm),
        "som_magnitude": pushed.pop("som_magnitude", som_norm),
        "cos_grad_som": cosine,
    }
    verdicts = judge(*(np.asarray(columns[name]) for name in list(columns)[1:]))
    columns |= {"verdict": verdicts.verdict_D, "grad_norm": grad_norm, "som_norm": som_norm}
    thresholds = {
        "cos": NEUTRAL_COSINE,
        "share_of_median": NEUTRAL_SHARE,
        "grad_magnitude": verdicts.least_grad,
        "som_magnitude": verdicts.least_som,
    }
    others = {name: column for name, column in pushed.items() if name not in columns}
    return {**columns, **others}, thresholds


def _measures(change: WeightChange) -> tuple[Any, Any, Any]:
    """Norms of both parts and their cosine, in chunks of rows: as float64 they are large."""
    rows, length = len(change.after), max(1, change.after[:1].numel())
    at_once = max(1, CHUNK_ELEMENTS // length)
    measured: list[list[Any]] = [[np.zeros(0)], [np.zeros(0)], [np.zeros(0)]]
    for first in range(0, rows, at_once):
        parts = parts_of(_only(change, slice(first, first + at_once)))
        both = parts.grad_delta_DI, parts.som_delta_DI
        chunk = norms(both[0]), norms(both[1]), row_cosines(*both)
        for column, values in zip(measured, chunk, strict=True):
            column.append(values)
    grad_norm, som_norm, cosine = (np.concatenate(column) for column in measured)
    return grad_norm, som_norm, cosine


def metric_columns(change: WeightChange, rows: int) -> dict[str, Any]:
    """The metrics that the loop pushed and that have one real number for each row."""
    columns = {}
    for name, values in change.metrics.items():
        if isinstance(name, str) and getattr(values, "ndim", None) == 1 and len(values) == rows:
            column = as_array(values)
            if column.dtype.kind in "fiub":
                columns[name] = column.astype(np.float64)
    return columns


def rows_of(tensor: Any) -> Any:
    """The tensor as [rows, numbers]: dimension 0 stays, the others are flattened."""
    array = as_array(tensor)
    return array.reshape(len(array), array[:1].size)


def parts_of(change: WeightChange) -> TwoForces:
    """The two parts of the change of every row, in float64."""
    som_delta = _som_delta(change)
    return split_change(
        rows_of(change.before),
        rows_of(change.after),
        None if som_delta is None else rows_of(som_delta),
    )


def _som_delta(change: WeightChange) -> Any:
    """The other update; None if the loop pushed none, or one of another shape."""
    pushed = change.extra_delta
    return pushed if pushed is not None and shape_of(pushed) == shape_of(change.after) else None


def describe_detail(change: WeightChange, feature: int) -> tuple[dict[str, Any], dict[str, Any]]:
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


def _only(change: WeightChange, row: slice) -> WeightChange:
    """The change of some rows."""
    som_delta = _som_delta(change)
    return replace(
        change,
        before=change.before[row],
        after=change.after[row],
        extra_delta=None if som_delta is None else som_delta[row],
    )
