"""Routes of stored influence results: list, one result, its batches, kernels, what-if."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
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
from midstep.server.influence.influence_store import InfluenceStore, StoredInfluence, summarize
from midstep.server.influence.influence_views import (
    kernel_of,
    request_json,
    result_json,
    rows_of,
    what_if_json,
)
from midstep.server.problems import Refusal, not_found
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.step_views.step_data_json import WHOLE_UP_TO

router = APIRouter(prefix="/api/v1/influence", tags=["influence"])


def store_of(request: Request) -> InfluenceStore:
    """The store of this app."""
    store: InfluenceStore = request.app.state.influence
    return store


def find_result(
    request: Request,
    result_id: Annotated[str, Path(description="Id as GET /api/v1/influence lists it.")],
) -> StoredInfluence:
    """The result in the address; every unknown id gets the same 404."""
    return store_of(request).get(result_id)


def find_batch(
    batch: Annotated[str, Path(description="Number of a request, or `update`.")],
) -> int | None:
    """The number of the evaluated batch; None for the update itself."""
    if batch == "update":
        return None
    if not (batch.isascii() and batch.isdigit() and len(batch) <= 3):
        raise not_found()
    return int(batch)


ResultOf = Annotated[StoredInfluence, Depends(find_result)]
BatchOf = Annotated[int | None, Depends(find_batch)]


@router.get("", response_model=InfluenceListOut)
def influence_results(request: Request) -> Response:
    """Results in the folder `influence` next to the runs of this server, newest first."""
    results = [_list_entry(stored) for stored in store_of(request).listing()]
    return StrictJsonResponse({"results": results, "total": len(results)})


def _list_entry(stored: StoredInfluence) -> dict[str, Any]:
    summary = summarize(stored)
    finished = "damaged" if summary["problem"] else "finished"
    state = finished if stored.finished else "unfinished"
    return {"id": stored.id, "made_at": stored.made_at, **summary, "state": state}


@router.get("/{result_id}", response_model=InfluenceOut)
def influence_result(request: Request, stored: ResultOf) -> Response:
    """The update with texts and weights, coverage, validation, and the list of requests."""
    return StrictJsonResponse(result_json(stored, store_of(request).read(stored)))


@router.get("/{result_id}/{batch}", response_model=InfluenceRequestOut)
def influence_batch(request: Request, stored: ResultOf, batch: BatchOf) -> Response:
    """The evaluated sequences of one batch: Δ with its terms, and the largest contributors."""
    return StrictJsonResponse(request_json(stored, store_of(request).read(stored), batch))


@router.get("/{result_id}/{batch}/kernel", response_model=InfluenceKernelOut, responses=BINARY)
def influence_kernel(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """K of all pairs: rows are evaluated sequences, columns the update. Safetensors: float32."""
    results = store_of(request).read(stored)
    kernel = kernel_of(stored, results, batch)
    if format == "safetensors":
        return SafetensorsResponse({"kernel": kernel.astype(np.float32)}, {"result": stored.id})
    if kernel.size > WHOLE_UP_TO:
        raise Refusal(
            409,
            "too_large",
            f"the kernel has {kernel.size:,} cells, too many for JSON; request format=safetensors.",
        )
    rows, columns = rows_of(results, batch)
    return StrictJsonResponse({"rows": rows, "columns": columns, "kernel": numbers(kernel)})


@router.get("/{result_id}/{batch}/what_if", response_model=InfluenceWhatIfOut)
def influence_what_if(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    advantages: Annotated[
        str,
        Query(max_length=4096, description="ID:NUMBER with commas: U-000-01:0.5,U-003-00:0."),
    ] = "",
) -> Response:
    """Δ under other advantages, from the stored kernel; the preconditioner stays fixed."""
    results = store_of(request).read(stored)
    return StrictJsonResponse(what_if_json(stored, results, batch, advantages))
