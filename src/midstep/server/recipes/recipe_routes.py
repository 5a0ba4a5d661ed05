"""Routes of recipes: list them, start one, and end the process of a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.responses import Response

from midstep.core.errors import MidstepError
from midstep.loops.recipes import recipes
from midstep.server.dependencies import CanControl, catalog_of
from midstep.server.problems import VIEW_ONLY, Refusal
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import Launcher, LaunchRequest
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_file_routes import RunFolder, RunId
from midstep.server.runs.run_schemas import RunOut
from midstep.server.schema_base import In, Out

SettingValue = StrictBool | StrictInt | StrictFloat | StrictStr


class SettingOut(Out):
    """One setting of a recipe."""

    name: str
    """Name of the setting."""
    kind: Literal["int", "float", "bool", "choice", "text"]
    """Type of its value."""
    default: SettingValue
    """Value if none is given."""
    minimum: float | None
    """Smallest number allowed."""
    maximum: float | None
    """Largest number allowed."""
    choices: list[str]
    """Allowed values of a choice."""
    about: str
    """What it does."""


class RecipeOut(Out):
    """A training that can be started by name."""

    name: str
    """Name with which it is started."""
    title: str
    """Name for people."""
    about: str
    """What it trains."""
    settings: list[SettingOut]
    """Its settings."""


class RecipeList(Out):
    """All recipes, and whether they can be started from here."""

    recipes: list[RecipeOut]
    """The built-in recipes first."""
    can_start: bool
    """Whether this server starts runs and the token of the request controls."""
    why_not: str | None
    """Why recipes cannot be started; null if they can."""


class StartIn(In):
    """A run to start: the name of a recipe and typed settings; never code, argv or a path."""

    recipe: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    """Name of the recipe."""
    settings: dict[Annotated[str, Field(max_length=64)], SettingValue] = Field(
        default={}, max_length=200
    )
    """Its settings; those left out have their defaults."""
    name: Annotated[StrictStr, Field(min_length=1, max_length=64)] | None = None
    """Name of the run; the recipe's name when left out."""
    paused: StrictBool = False
    """Pause before the first step."""
    id: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Chosen by the caller. A repeated id returns the run that the first request started."""


class EndIn(In):
    """How to end a process that does not react to a stop."""

    how: Literal["terminate", "kill"]
    """terminate: the run can still write a checkpoint and its end; kill: it ends at once."""


class EndOut(Out):
    """The signal that was sent."""

    id: str
    """Id of the run."""
    how: Literal["terminate", "kill"]
    """Which signal it was."""


router = APIRouter(prefix="/api/v1", tags=["recipes"])

ONE_RUN = (
    "This page shows one run only. `midstep serve outputs` shows all runs and can start new ones."
)


@router.get("/recipes", response_model=RecipeList)
def recipe_list(request: Request, controls: CanControl) -> Response:
    """The trainings that can be started by name, with their typed settings."""
    why_not = VIEW_ONLY if not controls else ONE_RUN if _launcher(request) is None else None
    listed = [
        {
            **RecipeOut.pick(vars(recipe)),
            "settings": [asdict(setting) for setting in recipe.settings],
        }
        for recipe in recipes().values()
    ]
    return StrictJsonResponse({"recipes": listed, "can_start": why_not is None, "why_not": why_not})


@router.post("/runs", response_model=RunOut, status_code=201)
def start_run(request: Request, body: StartIn) -> Response:
    """Start a recipe as a process that outlives this server. Answers once its run exists."""
    launcher = _launcher(request)
    if launcher is None:
        raise Refusal(409, "one_run", ONE_RUN)
    try:
        started = launcher.start(LaunchRequest(**body.model_dump()))
    except MidstepError as error:
        if isinstance(error, ValueError):  # settings that the recipe does not accept: 422
            raise
        raise Refusal(409, "not_begun", str(error)) from error
    catalog = catalog_of(request)
    catalog.mark_stale()
    return StrictJsonResponse(catalog.row(started.run_id), status_code=201)


@router.post("/runs/{run_id}/end", response_model=EndOut)
def end_run(run_id: RunId, folder: RunFolder, body: EndIn) -> Response:
    """Send a signal to the process of a run that does not react to debug/stop."""
    end_process(folder, body.how)
    return StrictJsonResponse({"id": run_id, "how": body.how})


def _launcher(request: Request) -> Launcher | None:
    launcher: Launcher | None = request.app.state.launcher
    return launcher
