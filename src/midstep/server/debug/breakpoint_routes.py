"""Routes of breakpoints and of the rules that can be used as breakpoints."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from midstep.control.breakpoints.rule_catalog import RULES
from midstep.server.debug.breakpoint_schemas import (
    BreakpointIn,
    BreakpointOut,
    BreakpointPatch,
    RuleOut,
)
from midstep.server.dependencies import ControlDependency, RunDependency
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_view import RunView, ShownBreakpoint

router = APIRouter()


@router.get("/breakpoints", response_model=list[BreakpointOut])
def breakpoints(run: RunDependency) -> Response:
    """All breakpoints with the hits of each so far."""
    return StrictJsonResponse([each.describe() for each in run.breakpoints()])


@router.post("/breakpoints", response_model=BreakpointOut, status_code=201)
def add_breakpoint(control: ControlDependency, body: BreakpointIn) -> Response:
    """Add a breakpoint, which is checked from the next step boundary on."""
    settings = body.condition.model_dump()
    kind = settings.pop("kind")
    added = control.add_breakpoint(kind, enabled=body.enabled, action=body.action, **settings)
    return StrictJsonResponse(added.describe(), status_code=201)


@router.patch("/breakpoints/{breakpoint_id}", response_model=BreakpointOut)
def switch_breakpoint(
    run: RunDependency, control: ControlDependency, breakpoint_id: int, patch: BreakpointPatch
) -> Response:
    """Switch a breakpoint on or off, or set its action. Its hits stay."""
    _find(run, breakpoint_id)
    if patch.enabled is not None:
        control.breakpoints.enable(breakpoint_id, patch.enabled)
    if patch.action is not None:
        control.breakpoints.set_action(breakpoint_id, patch.action)
    return StrictJsonResponse(_find(run, breakpoint_id).describe())


@router.delete("/breakpoints/{breakpoint_id}", status_code=204)
def remove_breakpoint(
    run: RunDependency, control: ControlDependency, breakpoint_id: int
) -> Response:
    """Remove a breakpoint."""
    _find(run, breakpoint_id)
    control.remove_breakpoint(breakpoint_id)
    return Response(status_code=204)


@router.get("/rules", response_model=list[RuleOut])
def rules(run: RunDependency) -> Response:  # noqa: ARG001 - an unknown run must be a 404 here too
    """The rules that can be added as breakpoints, with their limits and explanations."""
    return StrictJsonResponse([spec.describe() for spec in RULES.values()])


def _find(run: RunView, breakpoint_id: int) -> ShownBreakpoint:
    for each in run.breakpoints():
        if each.id == breakpoint_id:
            return each
    message = f"There is no breakpoint {breakpoint_id}. GET …/breakpoints lists them."
    raise Refusal(404, "no_breakpoint", message)
