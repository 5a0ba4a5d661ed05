"""Routes of the scripts that this server may start: list them, start one by its id.

A request holds an id, a name and a switch. Script, arguments and working directory were fixed where
the server was started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import Field, StrictBool, StrictStr
from starlette.responses import Response

from midstep.core.errors import MidstepError
from midstep.server.dependencies import CanControl, catalog_of
from midstep.server.problems import VIEW_ONLY, Refusal
from midstep.server.recipes.allowed_scripts import EXAMPLE, AllowedScript
from midstep.server.recipes.launcher import Launcher
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_schemas import RunOut
from midstep.server.schema_base import In, Out

router = APIRouter(prefix="/api/v1/scripts", tags=["recipes"])
NO_SCRIPTS = f"This server starts no scripts; start it with midstep serve {EXAMPLE}."
UNKNOWN = "This server starts no script with this id; GET /api/v1/scripts lists them."
ELSEWHERE = (
    "the script runs, but keeps its run outside of the folder of this server; it is not listed here"
)


class ScriptOut(Out):
    """A script that can be started."""

    id: str
    title: str
    """Its name without the folder, and its arguments without secrets."""
    name: str
    """Name of a run that is given no other one."""


class ScriptList(Out):
    """The scripts that this server may start; empty for a view-only link."""

    scripts: list[ScriptOut]
    """In the order in which they were named where the server was started."""
    why_not: str | None
    """Why none can be started; null if they can."""


class ScriptStartIn(In):
    """A script to start; never code, argv or a path."""

    id: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Chosen by the caller. A repeated id returns the run that the first request started."""
    name: Annotated[StrictStr, Field(min_length=1, max_length=64)] | None = None
    """Name of the run; that of the script when left out."""
    paused: StrictBool = False
    """Pause before the first step."""


@router.get("", response_model=ScriptList)
def script_list(request: Request, controls: CanControl) -> Response:
    """The scripts that can be started by id."""
    scripts, launcher = _scripts(request), _launcher(request)
    # A view-only link may not see command lines.
    listed = scripts.values() if controls and launcher is not None else ()
    why_not = VIEW_ONLY if not controls else None if listed else NO_SCRIPTS
    rows = [{"id": each.id, "title": each.title, "name": each.name} for each in listed]
    return StrictJsonResponse({"scripts": rows, "why_not": why_not})


@router.post("/{script_id}/runs", response_model=RunOut, status_code=201)
def start_script(
    request: Request,
    script_id: Annotated[str, InPath(max_length=64, description="The id in the list.")],
    body: ScriptStartIn,
) -> Response:
    """Start a script as `midstep run` does. Answers once its run exists: at its first step."""
    launcher, script = _launcher(request), _scripts(request).get(script_id)
    if launcher is None or script is None:
        raise Refusal(404, "not_found", UNKNOWN)
    try:
        started = launcher.start_script(script, body.id, name=body.name, paused=body.paused)
    except MidstepError as error:
        raise Refusal(409, "not_begun", str(error)) from error
    catalog = catalog_of(request)
    catalog.mark_stale()
    if catalog.directory(started.run_id) is None:
        raise Refusal(409, "elsewhere", ELSEWHERE)
    return StrictJsonResponse(catalog.row(started.run_id), status_code=201)


def _scripts(request: Request) -> Mapping[str, AllowedScript]:
    scripts: Mapping[str, AllowedScript] = request.app.state.scripts
    return scripts


def _launcher(request: Request) -> Launcher | None:
    launcher: Launcher | None = request.app.state.launcher
    return launcher
