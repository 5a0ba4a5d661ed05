"""Wire types of the forces on the rows of a tensor, and of their similarity."""

from __future__ import annotations

from typing import Literal

from midstep.server.models import Number, Out

__all__ = ["CosineMatrixOut", "ForceDetailOut", "ForceThresholds", "ForcesOut", "MatrixSource"]

Verdict = Literal["agree", "fight", "neutral"]
MatrixSource = Literal["weights", "som_targets", "grad_delta"]


class ForceThresholds(Out):
    """From where on a row counts as neutral."""

    cos: float
    """Least size of the cosine."""
    share_of_median: float
    """Least share of a force in its median over all rows."""
    grad_magnitude: Number
    """That share of the gradient's median: a row up to here has no gradient force."""
    som_magnitude: Number
    """The same of the other force."""


class ForcesOut(Out):
    """Both forces on every row of a tensor in the last shown step."""

    step: int
    tensor: str
    tensors: list[str]
    """Names that `tensor` may take."""
    features: dict[str, list[int | Number | Verdict]]
    """Columns of one length: id, grad_magnitude, som_magnitude, cos_grad_som, verdict, grad_norm,
    som_norm, and what the loop tells of its rows, such as win_rate."""
    agree: int
    """Rows of that verdict, counted over the whole tensor."""
    fight: int
    neutral: int
    thresholds: ForceThresholds
    rows: int
    """Of the tensor."""
    note: str | None
    """What was left out; None when nothing was."""


class ForceDetailOut(Out):
    """What one step did to one row, in its two parts; each list has the row's length."""

    step: int
    tensor: str
    feature: int
    grad_delta: list[Number]
    """combined - som_delta, so that the optimizer's scaling is in it."""
    som_delta: list[Number]
    """The part that is not the gradient's; zeros when there is none."""
    combined: list[Number]
    """The row after the step minus the row before it."""
    current_weight: list[Number]
    """The row after the step."""
    cos_grad_som: Number
    row_shape: list[int]
    """Of a row in the tensor, before it was flattened."""


class CosineMatrixOut(Out):
    """Cosines of all pairs of rows."""

    step: int
    source: MatrixSource
    tensor: str
    rows: int
    """Of the tensor."""
    labels: list[str]
    """Of the matrix's rows: a row's number, or `first-last` of a block of places."""
    matrix: list[list[Number]]
    mean_offdiag: Number | None
    """Over all pairs of different rows, also when the matrix is averaged; None for a single row."""
    std_offdiag: Number | None
    max_offdiag: Number | None
    order: str
    permutation: list[int]
    """Row numbers of the tensor in the order of the matrix, all of them."""
    averaged: bool
    """Whether a cell is the mean over a block of pairs."""
    note: str | None
