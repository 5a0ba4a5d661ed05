"""Forces on the rows of a tensor as answers, computed in the reader's thread from clones."""

# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from midstep.core.errors import ConfigError
from midstep.server.array_json import as_array, numbers, shape_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from midstep.control.capture.weight_changes import WeightChange

    Floats = NDArray[np.float64]


NEUTRAL_COSINE = 0.05
"""Below this, two directions have nothing to do with each other."""
NEUTRAL_SHARE = 0.01
"""A force below this share of its median over the rows is none."""
Verdict = Literal["agree", "fight", "neutral"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoForces:
    """The change of every row by one step, in its two parts."""

    grad_delta_DI: Floats
    som_delta_DI: Floats
    combined_DI: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdicts:
    """What the forces of each row do to each other."""

    verdict_D: list[Verdict]
    least_grad: float
    """A gradient magnitude up to this is none."""
    least_som: float


def split_change(before: Any, after: Any, som_delta: Any | None) -> TwoForces:
    """The parts of a change; the gradient's is what the other force does not explain.

    >>> import numpy as np
    >>> parts = split_change(np.zeros((1, 2)), np.array([[3.0, 1.0]]), np.array([[1.0, 1.0]]))
    >>> parts.grad_delta_DI.tolist()
    [[2.0, 0.0]]
    """
    import numpy as np

    after_DI = np.asarray(after, np.float64)
    with np.errstate(all="ignore"):  # weights may hold the infinities, and so do changes then
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
    """Cosine of each row of `a` with the same row of `b`; 0 where one of them is zero.

    >>> import numpy as np
    >>> row_cosines(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    import numpy as np

    with np.errstate(all="ignore"):
        # Each is scaled first: squares of the smallest weights would vanish.
        a_DI, b_DI = _scaled(a_DI), _scaled(b_DI)
        dots_D = np.einsum("ij,ij->i", a_DI, b_DI)
        lengths_D = norms(a_DI) * norms(b_DI)
        return np.where(lengths_D == 0, 0.0, dots_D / np.where(lengths_D == 0, 1.0, lengths_D))


def norms(rows_DI: Floats) -> Floats:
    """The length of each row."""
    import numpy as np

    with np.errstate(all="ignore"):
        found: Floats = np.sqrt(np.einsum("ij,ij->i", rows_DI, rows_DI))
    return found


def _scaled(rows_DI: Floats) -> Floats:
    """Each row divided by its largest number; a zero row stays."""
    import numpy as np

    if rows_DI.shape[1] == 0:
        return rows_DI
    largest_D = np.abs(rows_DI).max(axis=1, keepdims=True)
    return rows_DI / np.where(largest_D == 0, 1.0, largest_D)


def judge(grad_magnitude_D: Floats, som_magnitude_D: Floats, cosine_D: Floats) -> Verdicts:
    """Agree or fight; neutral where the cosine is small or one of the forces is next to nothing.

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
    """Up to here a force counts as none: also 0 itself, the median where nothing else acts."""
    import numpy as np

    known = magnitude_D[np.isfinite(magnitude_D)]
    return NEUTRAL_SHARE * float(np.median(known)) if len(known) else 0.0


MAX_TABLE_ROWS = 100_000
MAX_ROW_LENGTH = 65_536
"""Of a row in JSON; longer ones travel as safetensors."""
CHUNK_ELEMENTS = 4_000_000
"""Of the rows that are held in float64 at once."""


def describe_forces(change: WeightChange, tensors: list[str]) -> dict[str, Any]:
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


def force_columns(change: WeightChange) -> tuple[dict[str, Any], dict[str, float]]:
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


def _measures(change: WeightChange) -> tuple[Any, Any, Any]:
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


def told_columns(change: WeightChange, rows: int) -> dict[str, Any]:
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


def parts_of(change: WeightChange) -> TwoForces:
    """The change of every row in its two parts, all in float64."""
    som_delta = change.extra_delta
    fits = som_delta is not None and shape_of(som_delta) == shape_of(change.after)
    return split_change(
        rows_of(change.before), rows_of(change.after), rows_of(som_delta) if fits else None
    )


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
    """The same change of some rows."""
    som_delta = change.extra_delta
    fits = som_delta is not None and shape_of(som_delta) == shape_of(change.after)
    return replace(
        change,
        before=change.before[row],
        after=change.after[row],
        extra_delta=som_delta[row] if som_delta is not None and fits else None,
    )
