"""Two forces on the rows of a tensor: how large each is, and whether they agree.

Pure functions of arrays. Shape suffixes: D rows (features), I numbers in a row. All is computed in
float64, so that `combined = gradient part + other part` holds to the last digit that is sent.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "NEUTRAL_COSINE",
    "NEUTRAL_SHARE",
    "TwoForces",
    "Verdicts",
    "judge",
    "row_cosines",
    "split_change",
]

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
