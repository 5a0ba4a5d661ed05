"""Verbs of the debugger: pause, resume, step, run until, stop, and the state."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from midstep.server.answers import StrictAnswer
from midstep.server.asked import RunOf, WhoAsks
from midstep.server.effects import send_verb
from midstep.server.models import CommandOut, RunUntilVerb, StateOut, StepVerb, Verb

router = APIRouter()

_EFFECT: dict[int | str, dict[str, Any]] = {
    202: {"model": CommandOut, "description": "Accepted; its effect takes longer than 2 s."}
}


@router.get("/state", response_model=StateOut)
def state(run: RunOf) -> Response:
    """The real state of the run."""
    return StrictAnswer(run.state())


@router.post("/pause", response_model=StateOut, responses=_EFFECT)
async def pause(run: RunOf, who: WhoAsks, verb: Verb | None = None) -> Response:
    """Park at the next boundary."""
    return await send_verb(run, "pause", {}, who, verb.id if verb else None)


@router.post("/resume", response_model=StateOut, responses=_EFFECT)
async def resume(run: RunOf, who: WhoAsks, verb: Verb | None = None) -> Response:
    """Go on."""
    return await send_verb(run, "resume", {}, who, verb.id if verb else None)


@router.post("/step", response_model=StateOut, responses=_EFFECT)
async def step(run: RunOf, who: WhoAsks, verb: StepVerb | None = None) -> Response:
    """Let n steps pass, then park again."""
    asked = verb or StepVerb()
    return await send_verb(run, "step", {"n": asked.n}, who, asked.id)


@router.post("/run_until", response_model=StateOut, responses=_EFFECT)
async def run_until(run: RunOf, who: WhoAsks, verb: RunUntilVerb) -> Response:
    """Go on, and park when that many steps are finished."""
    return await send_verb(run, "run_until", {"step": verb.step}, who, verb.id)


@router.post("/stop", response_model=StateOut, responses=_EFFECT)
async def stop(run: RunOf, who: WhoAsks, verb: Verb | None = None) -> Response:
    """End the run at the next boundary. It beats everything that waits."""
    return await send_verb(run, "stop", {}, who, verb.id if verb else None)
