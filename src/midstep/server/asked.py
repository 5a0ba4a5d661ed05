"""What a route learns from its request: which run, who asks, what they may do."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request

from midstep.server.models import Who
from midstep.server.run_table import RunEntry, RunTable

__all__ = ["CanControl", "Format", "RunOf", "WhoAsks", "declare_run_id", "table_of"]

_ASKERS: dict[str, Who] = {"page": "page", "cli": "cli", "python": "python"}


def declare_run_id(
    run_id: Annotated[str, Path(description="Id of the run, as GET /api/v1/runs lists it.")],
) -> str:
    """Puts the path parameter into the OpenAPI document; `find_run` reads it."""
    return run_id


def table_of(request: Request) -> RunTable:
    """The table of this app."""
    table = request.app.state.runs
    assert isinstance(table, RunTable)  # noqa: S101 - set by create_app
    return table


def find_run(request: Request) -> RunEntry:
    """The run in the address, or the only live one under the short addresses."""
    run_id = request.path_params.get("run_id")
    return table_of(request).only() if run_id is None else table_of(request).get(run_id)


def who_asks(
    x_midstep_who: Annotated[
        str | None, Header(description="Who asks: page, cli or python; shown in the log.")
    ] = None,
) -> Who:
    """Who stands in the command log; anything unknown counts as python."""
    return _ASKERS.get(x_midstep_who or "", "python")


def can_control(request: Request) -> bool:
    """Whether the guard saw the control token."""
    return bool(request.scope.get("state", {}).get("midstep_role") == "control")


RunOf = Annotated[RunEntry, Depends(find_run)]
WhoAsks = Annotated[Who, Depends(who_asks)]
CanControl = Annotated[bool, Depends(can_control)]
Format = Annotated[str, Query(pattern="^(json|safetensors)$", description="json or safetensors")]
