"""What a route learns from its request: which run, who asks, what they may do.

What only reads memory is `async`, so that it is done on the server's loop: FastAPI calls everything
else in a thread of the pool, and each such way there and back takes time from the training.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from midstep.control.command_record import Who
from midstep.server.runs.run_catalog import Catalog
from midstep.server.runs.run_table import RunTable
from midstep.server.runs.run_view import RunControl, RunView

_ASKERS: dict[str, Who] = {"page": "page", "cli": "cli", "python": "python"}


async def declare_run_id(
    run_id: Annotated[str, Path(description="Id of the run, as GET /api/v1/runs lists it.")],
) -> str:
    """Puts the path parameter into the OpenAPI document; `find_run` reads it."""
    return run_id


def table_of(request: Request) -> RunTable:
    """The table of this app."""
    table = request.app.state.runs
    assert isinstance(table, RunTable)  # noqa: S101 - set by create_app
    return table


def catalog_of(request: Request) -> Catalog:
    """The catalog of this app."""
    catalog: Catalog = request.app.state.catalog
    return catalog


async def find_run(request: Request) -> RunView:
    """The run in the address, or the only live one under the short addresses."""
    if table_of(request).in_memory:
        return _looked_up(request)
    return await run_in_threadpool(_looked_up, request)


def _looked_up(request: Request) -> RunView:
    run_id = request.path_params.get("run_id")
    return table_of(request).only() if run_id is None else table_of(request).get(run_id)


async def who_asks(
    x_midstep_who: Annotated[
        str | None, Header(description="Who asks: page, cli or python; shown in the log.")
    ] = None,
) -> Who:
    """Who stands in the command log; anything unknown counts as python."""
    return _ASKERS.get(x_midstep_who or "", "python")


async def can_control(request: Request) -> bool:
    """Whether the guard saw the control token."""
    return bool(request.scope.get("state", {}).get("midstep_role") == "control")


RunDependency = Annotated[RunView, Depends(find_run)]


def find_control(run: RunDependency) -> RunControl:
    """What changes the run in the address; refused where commands do not reach it.

    Not `async`: whether a stored run can be reached is read from disk.
    """
    return run.control()


ControlDependency = Annotated[RunControl, Depends(find_control)]
CallerDependency = Annotated[Who, Depends(who_asks)]
CanControl = Annotated[bool, Depends(can_control)]
Format = Annotated[str, Query(pattern="^(json|safetensors)$", description="json or safetensors")]
