"""Stored influence results: list, one result, its batches, kernels, and what-if on advantages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from midstep.server.array_json import numbers
from midstep.server.dependencies import Format
from midstep.server.influence.influence_schemas import (
    InfluenceKernelOut,
    InfluenceListOut,
    InfluenceOut,
    InfluenceRequestOut,
    InfluenceWhatIfOut,
)
from midstep.server.influence.influence_store import InfluenceStore, StoredInfluence
from midstep.server.influence.influence_views import (
    kernel_of,
    request_json,
    result_json,
    rows_of,
    what_if_json,
)
from midstep.server.problems import Refusal, not_found
from midstep.server.responses import SafetensorsResponse, StrictJsonResponse
from midstep.server.step_views.step_data_json import WHOLE_UP_TO

router = APIRouter(prefix="/api/v1/influence", tags=["influence"])
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


def shelf_of(request: Request) -> InfluenceStore:
    """The shelf of this app."""
    shelf = request.app.state.influence
    assert isinstance(shelf, InfluenceStore)  # noqa: S101 - set by create_app
    return shelf


def find_result(
    request: Request,
    result_id: Annotated[str, Path(description="Id as GET /api/v1/influence lists it.")],
) -> StoredInfluence:
    """The result in the address; every wrong id gets the one 404."""
    return shelf_of(request).get(result_id)


def find_batch(
    batch: Annotated[str, Path(description="Number of a request, or `update` for U itself.")],
) -> int | None:
    """Which batch was evaluated; None for the update itself."""
    if batch == "update":
        return None
    if not (batch.isascii() and batch.isdigit() and len(batch) <= 3):
        raise not_found()
    return int(batch)


ResultOf = Annotated[StoredInfluence, Depends(find_result)]
BatchOf = Annotated[int | None, Depends(find_batch)]


@router.get("", response_model=InfluenceListOut)
def influence_results(request: Request) -> Response:
    """Results under `influence/` beside the runs of this server, newest first."""
    shelf = shelf_of(request)
    found = [{"id": one.id, "made_at": one.made_at, **_line(shelf, one)} for one in shelf.listing()]
    return StrictJsonResponse({"results": found, "total": len(found)})


def _line(shelf: InfluenceStore, stored: StoredInfluence) -> dict[str, Any]:
    summary = shelf.summary(stored)
    wrong = "damaged" if summary["problem"] else "finished"
    return {**summary, "state": wrong if stored.finished else "unfinished"}


@router.get("/{result_id}", response_model=InfluenceOut)
def influence_result(request: Request, stored: ResultOf) -> Response:
    """The update with texts and weights, coverage, predicted against actual, what was asked."""
    return StrictJsonResponse(result_json(stored, shelf_of(request).read(stored)))


@router.get("/{result_id}/{batch}", response_model=InfluenceRequestOut)
def influence_batch(request: Request, stored: ResultOf, batch: BatchOf) -> Response:
    """The evaluated sequences of one batch: Δ with its terms, and who moved each most."""
    return StrictJsonResponse(request_json(stored, shelf_of(request).read(stored), batch))


@router.get("/{result_id}/{batch}/kernel", response_model=InfluenceKernelOut, responses=_BYTES)
def influence_kernel(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """K of all pairs; as safetensors: `kernel` in 32 bits, rows evaluated, columns the update."""
    import numpy as np

    told = shelf_of(request).read(stored)
    kernel = kernel_of(stored, told, batch)
    if format == "safetensors":
        return SafetensorsResponse({"kernel": kernel.astype(np.float32)}, {"result": stored.id})
    if kernel.size > WHOLE_UP_TO:
        raise Refusal(
            409,
            "too_large",
            f"the kernel has {kernel.size:,} cells, too many for JSON; ask for format=safetensors.",
        )
    rows, columns = rows_of(told, batch)
    return StrictJsonResponse({"rows": rows, "columns": columns, "kernel": numbers(kernel)})


@router.get("/{result_id}/{batch}/what_if", response_model=InfluenceWhatIfOut)
def influence_what_if(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    advantages: Annotated[
        str,
        Query(max_length=4096, description="U-000-01:0.5,U-003-00:0; the others stay."),
    ] = "",
) -> Response:
    """Δ under other advantages, from the stored kernel; the preconditioner is held fixed."""
    told = shelf_of(request).read(stored)
    return StrictJsonResponse(what_if_json(stored, told, batch, advantages))
