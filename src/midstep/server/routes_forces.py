"""What the last step did to the rows of a tensor, and how alike the rows are."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.answers import SafetensorsAnswer, StrictAnswer
from midstep.server.arrays import numbers
from midstep.server.asked import Format, RunOf
from midstep.server.encode import WHOLE_UP_TO
from midstep.server.force_views import MAX_ROW_LENGTH, describe_detail, describe_forces
from midstep.server.matrix_views import Matrix
from midstep.server.models_forces import CosineMatrixOut, ForceDetailOut, ForcesOut, MatrixSource
from midstep.server.problems import Refusal

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
def forces(run: RunOf, tensor: Tensor = None) -> Response:
    """Both forces on every row in the last shown step, and whether they agree or fight.

    Where nothing but the gradient moves the tensor the second force is 0 and every row neutral.
    """
    change = run.controller.look_at_change(tensor)
    return StrictAnswer(describe_forces(change, run.controller.change_sources))


@router.get("/step_data/force_detail", response_model=ForceDetailOut, responses=_BYTES)
def force_detail(
    run: RunOf,
    feature: Feature,
    tensor: Tensor = None,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """One row's change by the last shown step: combined = grad_delta + som_delta."""
    plain, arrays = describe_detail(run.controller.look_at_change(tensor), feature)
    if format == "safetensors":
        return SafetensorsAnswer(arrays, {name: str(value) for name, value in plain.items()})
    if len(arrays["combined"]) > MAX_ROW_LENGTH:
        _refuse_size(f"a row of {plain['tensor']} has {len(arrays['combined']):,} numbers")
    return StrictAnswer({**plain, **{name: numbers(row) for name, row in arrays.items()}})


@router.get("/cosine_matrix", response_model=CosineMatrixOut, responses=_BYTES)
def cosine_matrix(
    run: RunOf,
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
    change = run.controller.look_at_change(tensor, whole=needs_change)
    found = Matrix(change, source, order, full=full)
    if format == "safetensors":
        return _matrix_tensors(found)
    cells = found.found.matrix_MM
    if cells.size > WHOLE_UP_TO:
        _refuse_size(f"the matrix has {cells.size:,} cells")
    return StrictAnswer({**found.describe(), "matrix": numbers(cells)})


def _matrix_tensors(found: Matrix) -> Response:
    import numpy as np

    plain = found.describe()
    about = {k: str(v) for k, v in plain.items() if k not in ("labels", "permutation")}
    tensors = {
        "matrix": found.found.matrix_MM,
        "permutation": np.asarray(found.permutation, np.int64),
    }
    return SafetensorsAnswer(tensors, about)


def _refuse_size(what: str) -> None:
    raise Refusal(409, "too_large", f"{what}, too many for JSON; ask for format=safetensors.")
