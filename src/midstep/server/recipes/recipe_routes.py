"""Routes of recipes: list them, start one, and end the process of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.responses import Response

from midstep.core.errors import MidstepError
from midstep.loops.config.loop_recipe import data_file
from midstep.loops.recipe_settings import RecipeSetting
from midstep.loops.recipes import find_recipe, recipes
from midstep.server.datasets.dataset_routes import RootsOf, roots_of
from midstep.server.dependencies import CanControl, catalog_of
from midstep.server.problems import VIEW_ONLY, Refusal
from midstep.server.recipes.data_files import list_data_files
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import Launcher, LaunchRequest
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_file_routes import RunFolder, RunId
from midstep.server.runs.run_schemas import RunOut
from midstep.server.schema_base import In, Out

MOST_ITEMS = 64
"""Items of a list among the settings."""
OneValue = StrictBool | StrictInt | StrictFloat | StrictStr
DefaultValue = (
    OneValue
    | Annotated[list[StrictInt], Field(max_length=MOST_ITEMS)]
    | Annotated[list[StrictStr], Field(max_length=MOST_ITEMS)]
)
SettingValue = DefaultValue | None


class SettingOut(Out):
    """One setting of a recipe."""

    name: str
    """Name of the setting."""
    kind: Literal["int", "float", "bool", "choice", "text", "ints", "words", "file"]
    """Type of its value. `ints` and `words` are lists; `file` is the id of a data file."""
    default: DefaultValue
    """Value if none is given; empty for none."""
    minimum: float | None
    """Smallest number allowed."""
    maximum: float | None
    """Largest number allowed."""
    choices: list[str]
    """Allowed values of a choice."""
    about: str
    """What it does."""
    group: str
    """Its group. The setting with the same name chooses the option of the group; may be empty."""
    is_optional: bool
    """Whether null is allowed, for none."""


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


class DataFileOut(Out):
    """A file of the server's data folders that a recipe can train on."""

    id: str
    """Value of a setting of the kind `file`."""
    name: str
    """Name of the file."""
    bytes: int
    """Its size."""


class DataFileList(Out):
    """The files that recipes can train on."""

    files: list[DataFileOut]
    """Sorted by name."""


class PreviewIn(In):
    """A recipe with typed settings; never code, argv or a path."""

    recipe: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    """Name of the recipe."""
    settings: dict[Annotated[str, Field(max_length=64)], SettingValue] = Field(
        default={}, max_length=200
    )
    """Its settings; those left out have their defaults."""


class PreviewOut(Out):
    """All settings that a run would have."""

    config: str
    """The settings as YAML."""


class StartIn(PreviewIn):
    """A run to start."""

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
            "name": recipe.name,
            "title": recipe.title,
            "about": recipe.about,
            "settings": [_setting(setting) for setting in recipe.settings],
        }
        for recipe in recipes().values()
    ]
    return StrictJsonResponse({"recipes": listed, "can_start": why_not is None, "why_not": why_not})


@router.post("/recipes/preview", response_model=PreviewOut)
def preview_recipe(request: Request, body: PreviewIn) -> Response:
    """All settings that a run would have, without starting it."""
    settings = data_file(body.settings, _data_files(request))
    return StrictJsonResponse({"config": find_recipe(body.recipe).preview(settings)})


@router.get("/recipes/files", response_model=DataFileList)
def recipe_files(roots: RootsOf) -> Response:
    """Files of the folders of `--data` that recipes can train on."""
    files = [
        {"id": file_id, "name": path.name, "bytes": path.stat().st_size}
        for file_id, path in list_data_files(roots.folders).items()
    ]
    return StrictJsonResponse({"files": files})


@router.post("/runs", response_model=RunOut, status_code=201)
def start_run(request: Request, body: StartIn) -> Response:
    """Start a recipe as a process that outlives this server. Answers once its run exists."""
    launcher = _launcher(request)
    if launcher is None:
        raise Refusal(409, "one_run", ONE_RUN)
    try:
        settings = data_file(body.settings, _data_files(request))
        started = launcher.start(LaunchRequest(**{**body.model_dump(), "settings": settings}))
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


def _setting(setting: RecipeSetting) -> dict[str, Any]:
    default = "" if setting.default is None else setting.default
    return {**asdict(setting), "default": default}


def _data_files(request: Request) -> dict[str, Path]:
    return list_data_files(roots_of(request).folders)


def _launcher(request: Request) -> Launcher | None:
    launcher: Launcher | None = request.app.state.launcher
    return launcher
