"""Recipes: what can be started, starting it, and ending a process that no stop ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from midstep.core.errors import MidstepError
from midstep.server.answers import StrictAnswer
from midstep.server.asked import CanControl, declare_run_id
from midstep.server.catalog import Catalog
from midstep.server.ending import end_process
from midstep.server.launching import Launcher, Start
from midstep.server.models_recipes import EndIn, EndOut, RecipeList, StartIn
from midstep.server.models_runs import RunOut
from midstep.server.problems import Refusal, not_found

router = APIRouter(prefix="/api/v1", tags=["recipes"])

ONE_RUN = (
    "This page belongs to one run. `midstep serve outputs` shows all runs, and starts new ones."
)
LOOK_ONLY = "From here one can only look."


@router.get("/recipes", response_model=RecipeList)
def recipe_list(request: Request, controls: CanControl) -> Response:
    """The trainings that can be started by name, with their typed settings."""
    from midstep.loops.registry import recipes

    why_not = LOOK_ONLY if not controls else ONE_RUN if _launcher(request) is None else None
    found = [
        {
            "name": recipe.name,
            "title": recipe.title,
            "about": recipe.about,
            "settings": [asdict(setting) for setting in recipe.settings],
        }
        for recipe in recipes().values()
    ]
    return StrictAnswer({"recipes": found, "can_start": why_not is None, "why_not": why_not})


@router.post("/runs", response_model=RunOut, status_code=201)
def start_run(request: Request, wanted: StartIn) -> Response:
    """Start a recipe as a process that outlives this server; answers once its run stands."""
    launcher = _launcher(request)
    if launcher is None:
        raise Refusal(409, "one_run", ONE_RUN)
    try:
        started = launcher.start(Start(**wanted.model_dump()))
    except MidstepError as error:
        if isinstance(error, ValueError):  # settings that the recipe does not take: 422
            raise
        raise Refusal(409, "not_begun", str(error)) from error
    catalog: Catalog = request.app.state.catalog
    catalog.look()
    return StrictAnswer(catalog.row(started.run_id), status_code=201)


@router.post("/runs/{run_id}/end", response_model=EndOut)
def end_run(
    request: Request, run_id: Annotated[str, Depends(declare_run_id)], asked: EndIn
) -> Response:
    """Signal the process of a run, where asking its loop to stop (debug/stop) is not enough."""
    catalog: Catalog = request.app.state.catalog
    run_dir = catalog.directory(run_id)
    if run_dir is None:
        raise not_found()
    end_process(run_dir, asked.how)
    return StrictAnswer({"id": run_id, "how": asked.how})


def _launcher(request: Request) -> Launcher | None:
    found: Launcher | None = request.app.state.launcher
    return found
