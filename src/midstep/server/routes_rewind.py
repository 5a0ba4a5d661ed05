"""Going back: the verb, and how far one can go."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from midstep.server.answers import StrictAnswer
from midstep.server.asked import OpenRun, RunOf, WhoAsks
from midstep.server.effects import send_verb
from midstep.server.models import CommandOut, StateOut
from midstep.server.models_rewind import BackVerb, RewindOut
from midstep.server.problems import Refusal

router = APIRouter()

_EFFECT: dict[int | str, dict[str, Any]] = {
    202: {"model": CommandOut, "description": "Accepted; steps are still being repeated."}
}


@router.get("/rewind", response_model=RewindOut)
def rewind(run: RunOf) -> Response:
    """How far back one can go, and what that takes."""
    return StrictAnswer(run.controller.get_rewind())


@router.post("/back", response_model=StateOut, responses=_EFFECT)
async def back(run: OpenRun, who: WhoAsks, verb: BackVerb | None = None) -> Response:
    """Return to the state before the last n steps, or to a step; the run must be parked."""
    asked = verb or BackVerb()
    if "back" not in run.controller.registry:
        reason = run.controller.get_rewind()["reason"]
        raise Refusal(409, "no_rewind", reason or "This run cannot be taken back.")
    payload = asked.model_dump(include={"n", "step"}, exclude_none=True)
    return await send_verb(run, "back", payload, who, asked.id)
