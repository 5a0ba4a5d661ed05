"""What the last step did to the rows of a tensor, and how alike the rows are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.array_json import numbers
from midstep.server.dependencies import Format, RunDependency
from midstep.server.problems import Refusal
from midstep.server.responses import SafetensorsResponse, StrictJsonResponse
from midstep.server.schema_base import Number, Out
from midstep.server.step_views.cosine_matrix import Matrix
from midstep.server.step_views.force_views import MAX_ROW_LENGTH, describe_detail, describe_forces
from midstep.server.step_views.step_data_json import WHOLE_UP_TO

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
        description="id, cluster (like beside like) or metric:NAME (largest first).",
    ),
]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


@router.get("/forces", response_model=ForcesOut)
def forces(run: RunDependency, tensor: Tensor = None) -> Response:
    """Both forces on every row in the last shown step, and whether they agree or fight.

    Where nothing but the gradient moves the tensor the second force is 0 and every row neutral.
    """
    change = run.weight_change(tensor)
    return StrictJsonResponse(describe_forces(change, run.weight_names()))


@router.get("/step_data/force_detail", response_model=ForceDetailOut, responses=_BYTES)
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
        _refuse_size(f"a row of {plain['tensor']} has {len(arrays['combined']):,} numbers")
    return StrictJsonResponse({**plain, **{name: numbers(row) for name, row in arrays.items()}})


@router.get("/cosine_matrix", response_model=CosineMatrixOut, responses=_BYTES)
def cosine_matrix(
    run: RunDependency,
    source: MatrixSource = "weights",
    tensor: Tensor = None,
    order: Order = "id",
    full: Annotated[bool, Query(description="All cells, also above 512 rows.")] = False,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Cosines of all pairs of rows: of the weights, of the SOM targets, or of the gradient's part.

    Above 512 rows cells are averaged over blocks unless `full` is set; the statistics are always
    of all pairs. As safetensors: `matrix` and `permutation`.
    """
    needs_change = source != "weights" or order.startswith("metric:")
    change = run.weight_change(tensor, whole=needs_change)
    found = Matrix(change, source, order, full=full)
    if format == "safetensors":
        return _matrix_tensors(found)
    cells = found.found.matrix_MM
    if cells.size > WHOLE_UP_TO:
        _refuse_size(f"the matrix has {cells.size:,} cells")
    return StrictJsonResponse({**found.describe(), "matrix": numbers(cells)})


def _matrix_tensors(found: Matrix) -> Response:
    import numpy as np

    plain = found.describe()
    about = {k: str(v) for k, v in plain.items() if k not in ("labels", "permutation")}
    tensors = {
        "matrix": found.found.matrix_MM,
        "permutation": np.asarray(found.permutation, np.int64),
    }
    return SafetensorsResponse(tensors, about)


def _refuse_size(what: str) -> None:
    raise Refusal(409, "too_large", f"{what}, too many for JSON; ask for format=safetensors.")
