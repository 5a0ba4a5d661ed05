"""What a route learns from its request: which run, who asks, what they may do.

What only reads memory is `async`, so that it is done on the server's loop: FastAPI calls everything
else in a thread of the pool, and each such way there and back takes time from the training.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from midstep.server.catalog import Catalog
from midstep.server.models import Who
from midstep.server.run_table import RunEntry, RunTable

__all__ = [
    "CanControl",
    "Format",
    "OpenRun",
    "RunOf",
    "WhoAsks",
    "catalog_of",
    "declare_run_id",
    "table_of",
]

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


async def find_run(request: Request) -> RunEntry:
    """The run in the address, or the only live one under the short addresses."""
    if table_of(request).in_memory:
        return _looked_up(request)
    return await run_in_threadpool(_looked_up, request)


def _looked_up(request: Request) -> RunEntry:
    run_id = request.path_params.get("run_id")
    return table_of(request).only() if run_id is None else table_of(request).get(run_id)


def find_open_run(request: Request) -> RunEntry:
    """The same, for what changes a run: refused where it cannot be reached."""
    found = _looked_up(request)
    found.check_open()
    return found


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


RunOf = Annotated[RunEntry, Depends(find_run)]
OpenRun = Annotated[RunEntry, Depends(find_open_run)]
WhoAsks = Annotated[Who, Depends(who_asks)]
CanControl = Annotated[bool, Depends(can_control)]
Format = Annotated[str, Query(pattern="^(json|safetensors)$", description="json or safetensors")]
