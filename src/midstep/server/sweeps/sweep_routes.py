"""Routes of sweeps: list them, show one, start its open cells, stop it or one cell."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from midstep.server.dependencies import CanControl, catalog_of
from midstep.server.problems import VIEW_ONLY, Refusal
from midstep.server.recipes.recipe_routes import ONE_RUN
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.sweeps.sweep_control import start_pool, stop_cell, stop_pool
from midstep.server.sweeps.sweep_schemas import (
    SweepActionOut,
    SweepList,
    SweepOut,
    SweepStartIn,
)
from midstep.server.sweeps.sweep_views import SweepView, find_view, list_views

SweepId = Annotated[str, Path(description="Id of the sweep, as GET /api/v1/sweeps lists it.")]
ValueName = Annotated[
    str | None,
    Query(max_length=200, description="The value to show; best_val_loss when left out."),
]

router = APIRouter(prefix="/api/v1", tags=["sweeps"])


@router.get("/sweeps", response_model=SweepList)
def sweep_list(request: Request) -> Response:
    """The sweeps under the outputs folder, the newest first."""
    catalog = catalog_of(request)
    if not isinstance(catalog, RootCatalog):
        return StrictJsonResponse({"sweeps": [], "damaged": []})
    catalog.refresh()
    views, damaged = list_views(catalog)
    rows = [view.summary(view.cells()) for view in views]
    return StrictJsonResponse({"sweeps": rows, "damaged": damaged})


@router.get("/sweeps/{sweep_id}", response_model=SweepOut)
def sweep(
    request: Request, sweep_id: SweepId, controls: CanControl, value: ValueName = None
) -> Response:
    """One sweep: axes, cells with their states and values, effects of the axes."""
    view = _view(request, sweep_id)
    why_not = None if controls else VIEW_ONLY
    detail = {**view.detail(value), "can_start": why_not is None, "why_not": why_not}
    return StrictJsonResponse(detail)


@router.post("/sweeps/{sweep_id}/start", response_model=SweepActionOut, status_code=202)
def start_sweep(request: Request, sweep_id: SweepId, body: SweepStartIn) -> Response:
    """Run the open cells in a process that outlives this server."""
    if request.app.state.launcher is None:
        raise Refusal(409, "one_run", ONE_RUN)
    view = _view(request, sweep_id)
    known = {job.job for job in view.plan.jobs}
    if body.cells is not None and not known.issuperset(body.cells):
        raise Refusal(422, "invalid", "cells: the sweep has no such cell", field="cells")
    only = None if body.cells is None else tuple(body.cells)
    start_pool(view.folder, jobs=body.jobs, retry_failed=body.retry_failed, only=only)
    catalog_of(request).mark_stale()
    return StrictJsonResponse({"id": sweep_id, "pool": True}, status_code=202)


@router.post("/sweeps/{sweep_id}/stop", response_model=SweepActionOut, status_code=202)
def stop_sweep(request: Request, sweep_id: SweepId) -> Response:
    """Stop the sweep in order: its cells take a checkpoint and can be resumed."""
    stop_pool(_view(request, sweep_id).folder)
    return StrictJsonResponse({"id": sweep_id, "pool": True}, status_code=202)


@router.post("/sweeps/{sweep_id}/cells/{job}/stop", response_model=SweepActionOut, status_code=202)
def stop_sweep_cell(
    request: Request,
    sweep_id: SweepId,
    job: Annotated[int, Path(ge=0, description="Number of the cell.")],
) -> Response:
    """Stop one cell in order; the others continue."""
    view = _view(request, sweep_id)
    stop_cell(view.folder, job)
    return StrictJsonResponse({"id": sweep_id, "pool": True}, status_code=202)


def _view(request: Request, sweep_id: str) -> SweepView:
    catalog = catalog_of(request)
    if not isinstance(catalog, RootCatalog):
        raise Refusal(409, "one_run", ONE_RUN)
    catalog.refresh()
    return find_view(catalog, sweep_id)
