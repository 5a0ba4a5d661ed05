"""Recipes: what can be started, starting it, and ending a process that no stop ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.responses import Response

from midstep.core.errors import MidstepError
from midstep.server.dependencies import CanControl, declare_run_id
from midstep.server.problems import Refusal, not_found
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import Launcher, LaunchRequest
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_catalog import Catalog
from midstep.server.runs.run_schemas import RunOut
from midstep.server.schema_base import In, Out

SettingValue = StrictBool | StrictInt | StrictFloat | StrictStr


class SettingOut(Out):
    """One setting of a recipe."""

    name: str
    """Under which it is given."""
    kind: Literal["int", "float", "bool", "choice", "text"]
    """What a value of it is."""
    default: SettingValue
    """Taken where none is given."""
    minimum: float | None
    """Least number allowed."""
    maximum: float | None
    """Greatest number allowed."""
    choices: list[str]
    """All there are, where it is a choice."""
    about: str
    """What it does."""


class RecipeOut(Out):
    """A training that can be started by name."""

    name: str
    """Under which it is started."""
    title: str
    """What people read."""
    about: str
    """What is trained."""
    settings: list[SettingOut]
    """What can be set."""


class RecipeList(Out):
    """All recipes, and whether they can be started from here."""

    recipes: list[RecipeOut]
    """Ours first."""
    can_start: bool
    """Whether this server starts runs, and whoever asks may ask for it."""
    why_not: str | None
    """Why it does not."""


class StartIn(In):
    """A run that is wanted: a recipe by name and typed settings; never code, argv or a path."""

    recipe: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    """Name of the recipe."""
    settings: dict[Annotated[str, Field(max_length=64)], SettingValue] = Field(
        default={}, max_length=200
    )
    """Its settings; defaults for those left out."""
    name: Annotated[StrictStr, Field(min_length=1, max_length=64)] | None = None
    """What to call the run; the recipe's name when left out."""
    paused: StrictBool = False
    """Stand before the first step until resumed."""
    id: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Drawn by whoever asks: repeated, it is answered with the run that it started."""


class EndIn(In):
    """How to end a process that a stop does not end."""

    how: Literal["terminate", "kill"]
    """terminate: it may still write a checkpoint and its end; kill: at once, nothing is written."""


class EndOut(Out):
    """A process that was signalled."""

    id: str
    """Of the run."""
    how: Literal["terminate", "kill"]
    """What was sent."""


router = APIRouter(prefix="/api/v1", tags=["recipes"])

ONE_RUN = (
    "This page belongs to one run. `midstep serve outputs` shows all runs, and starts new ones."
)
LOOK_ONLY = "From here one can only look."


@router.get("/recipes", response_model=RecipeList)
def recipe_list(request: Request, controls: CanControl) -> Response:
    """The trainings that can be started by name, with their typed settings."""
    from midstep.loops.recipes import recipes

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
    return StrictJsonResponse({"recipes": found, "can_start": why_not is None, "why_not": why_not})


@router.post("/runs", response_model=RunOut, status_code=201)
def start_run(request: Request, wanted: StartIn) -> Response:
    """Start a recipe as a process that outlives this server; answers once its run stands."""
    launcher = _launcher(request)
    if launcher is None:
        raise Refusal(409, "one_run", ONE_RUN)
    try:
        started = launcher.start(LaunchRequest(**wanted.model_dump()))
    except MidstepError as error:
        if isinstance(error, ValueError):  # settings that the recipe does not take: 422
            raise
        raise Refusal(409, "not_begun", str(error)) from error
    catalog: Catalog = request.app.state.catalog
    catalog.look()
    return StrictJsonResponse(catalog.row(started.run_id), status_code=201)


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
    return StrictJsonResponse({"id": run_id, "how": asked.how})


def _launcher(request: Request) -> Launcher | None:
    found: Launcher | None = request.app.state.launcher
    return found
