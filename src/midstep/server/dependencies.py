"""What a route gets from its request: the run, the caller, the role, the format.

A dependency that only reads memory is `async`, so that it runs on the event loop. FastAPI calls the
others in a thread of the pool, and each switch of threads takes time from the training.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from midstep.control import DebugController
from midstep.control.command_record import Who
from midstep.server.runs.run_catalog import Catalog
from midstep.server.runs.run_table import RunTable
from midstep.server.runs.run_view import RunView

_CALLERS: dict[str, Who] = {"page": "page", "cli": "cli", "python": "python"}


async def declare_run_id(
    run_id: Annotated[str, Path(description="Id of the run, as GET /api/v1/runs lists it.")],
) -> str:
    """Declare the path parameter for the OpenAPI document; `find_run` reads it."""
    return run_id


def table_of(request: Request) -> RunTable:
    """The run table of this app."""
    table: RunTable = request.app.state.runs
    return table


def catalog_of(request: Request) -> Catalog:
    """The catalog of this app."""
    catalog: Catalog = request.app.state.catalog
    return catalog


async def find_run(request: Request) -> RunView:
    """The run in the address; under the short addresses the only live one."""
    if table_of(request).in_memory:
        return _look_up(request)
    return await run_in_threadpool(_look_up, request)


def _look_up(request: Request) -> RunView:
    run_id = request.path_params.get("run_id")
    return table_of(request).only() if run_id is None else table_of(request).get(run_id)


async def find_caller(
    x_midstep_who: Annotated[
        str | None, Header(description="The caller: page, cli or python; shown in the log.")
    ] = None,
) -> Who:
    """The caller for the command log; an unknown one counts as python."""
    return _CALLERS.get(x_midstep_who or "", "python")


async def can_control(request: Request) -> bool:
    """Whether the request has the control token."""
    return bool(request.scope.get("state", {}).get("midstep_role") == "control")


RunDependency = Annotated[RunView, Depends(find_run)]


def find_control(run: RunDependency) -> DebugController:
    """The controller of the run in the address; a 409 where commands do not reach it.

    Not `async`: for a stored run it reads the disk.
    """
    return run.control()


ControlDependency = Annotated[DebugController, Depends(find_control)]
CallerDependency = Annotated[Who, Depends(find_caller)]
CanControl = Annotated[bool, Depends(can_control)]
Format = Annotated[str, Query(pattern="^(json|safetensors)$", description="json or safetensors")]
