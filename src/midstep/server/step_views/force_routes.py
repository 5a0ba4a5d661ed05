"""Routes of the forces on the rows of a tensor, and of the cosines between its rows."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.array_json import numbers
from midstep.server.dependencies import Format, RunDependency
from midstep.server.problems import too_large
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.schema_base import Number, Out
from midstep.server.step_views.cosine_matrix import CosineMatrix
from midstep.server.step_views.force_views import (
    MAX_ROW_LENGTH,
    Verdict,
    describe_detail,
    describe_forces,
)
from midstep.server.step_views.step_data_json import WHOLE_UP_TO

MatrixSource = Literal["weights", "som_targets", "grad_delta"]


class ForceThresholds(Out):
    """Limits below which a row counts as neutral."""

    cos: float
    """Smallest absolute cosine."""
    share_of_median: float
    """Smallest force, as a share of its median over all rows."""
    grad_magnitude: Number
    """Largest gradient magnitude that counts as zero: the share above times the median."""
    som_magnitude: Number
    """Largest magnitude of the other force that counts as zero."""


class ForcesOut(Out):
    """Both forces on every row of a tensor in the last shown step."""

    step: int
    tensor: str
    tensors: list[str]
    """Names that `tensor` may take."""
    features: dict[str, list[int | Number | Verdict]]
    """Columns of equal length: id, grad_magnitude, som_magnitude, cos_grad_som, verdict, grad_norm,
    som_norm, and the metrics that the loop pushes for its rows, such as win_rate."""
    agree: int
    """Rows of this verdict, counted over the whole tensor."""
    fight: int
    neutral: int
    thresholds: ForceThresholds
    rows: int
    """Rows of the tensor."""
    note: str | None
    """What was left out; null if nothing was."""


class ForceDetailOut(Out):
    """The change of one row by one step, in its two parts; each list has the row's length."""

    step: int
    tensor: str
    feature: int
    grad_delta: list[Number]
    """combined - som_delta, so it includes the scaling by the optimizer."""
    som_delta: list[Number]
    """The part that does not come from the gradient; zeros if there is none."""
    combined: list[Number]
    """The row after the step minus the row before it."""
    current_weight: list[Number]
    """The row after the step."""
    cos_grad_som: Number
    row_shape: list[int]
    """Shape of a row before it was flattened."""


class CosineMatrixOut(Out):
    """Cosines of all pairs of rows."""

    step: int
    source: MatrixSource
    tensor: str
    rows: int
    """Rows of the tensor."""
    labels: list[str]
    """Labels of the matrix: the number of a row, or `first-last` positions of a block."""
    matrix: list[list[Number]]
    mean_offdiag: Number | None
    """Over all pairs of different rows, also if the matrix is averaged; null for a single row."""
    std_offdiag: Number | None
    max_offdiag: Number | None
    order: str
    permutation: list[int]
    """All row numbers of the tensor, in the order of the matrix."""
    averaged: bool
    """Whether a cell is the mean over a block of pairs of rows."""
    note: str | None


router = APIRouter()

Tensor = Annotated[
    str | None,
    Query(max_length=300, description="Name of the tensor; the run's default when left out."),
]
Feature = Annotated[int, Query(ge=0, le=2**53, description="Row of the tensor.")]
Order = Annotated[
    str,
    Query(
        pattern=r"^(id|cluster|metric:[\w.\- ]{1,100})$",
        description="id, cluster (similar rows adjacent) or metric:NAME (largest first).",
    ),
]


@router.get("/forces", response_model=ForcesOut)
def forces(run: RunDependency, tensor: Tensor = None) -> Response:
    """Both forces on every row in the last shown step, and whether they agree or fight.

    If only the gradient moves the tensor, the second force is 0 and every row is neutral.
    """
    change = run.weight_change(tensor)
    return StrictJsonResponse(describe_forces(change, run.weight_names()))


@router.get("/step_data/force_detail", response_model=ForceDetailOut, responses=BINARY)
def force_detail(
    run: RunDependency,
    feature: Feature,
    tensor: Tensor = None,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """One row's change by the last shown step: combined = grad_delta + som_delta."""
    plain, arrays = describe_detail(run.weight_change(tensor), feature)
    if format == "safetensors":
        return SafetensorsResponse(arrays, {name: str(value) for name, value in plain.items()})
    if len(arrays["combined"]) > MAX_ROW_LENGTH:
        raise too_large(f"a row of {plain['tensor']} has {len(arrays['combined']):,} numbers")
    return StrictJsonResponse({**plain, **{name: numbers(row) for name, row in arrays.items()}})


@router.get("/cosine_matrix", response_model=CosineMatrixOut, responses=BINARY)
def cosine_matrix(
    run: RunDependency,
    source: MatrixSource = "weights",
    tensor: Tensor = None,
    order: Order = "id",
    full: Annotated[bool, Query(description="Send all cells, also above 512 rows.")] = False,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Cosines of all pairs of rows: of weights, their targets, or the change by the gradient.

    Above 512 rows a cell is the mean over a block, unless `full` is given; the statistics are
    always those of all pairs. As safetensors: `matrix` and `permutation`.
    """
    needs_change = source != "weights" or order.startswith("metric:")
    change = run.weight_change(tensor, whole=needs_change)
    matrix = CosineMatrix(change, source, order, full=full)
    if format == "safetensors":
        return _matrix_tensors(matrix)
    cells = matrix.cells_MM
    if cells.size > WHOLE_UP_TO:
        raise too_large(f"the matrix has {cells.size:,} cells")
    return StrictJsonResponse({**matrix.describe(), "matrix": numbers(cells)})


def _matrix_tensors(matrix: CosineMatrix) -> Response:
    fields = matrix.describe()
    metadata = {k: str(v) for k, v in fields.items() if k not in ("labels", "permutation")}
    tensors = {
        "matrix": matrix.cells_MM,
        "permutation": np.asarray(matrix.permutation, np.int64),
    }
    return SafetensorsResponse(tensors, metadata)
