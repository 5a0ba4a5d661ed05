"""Commands of the registry: submit, follow, cancel, list."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from midstep.control import CommandRecord
from midstep.server.answers import StrictAnswer
from midstep.server.asked import RunOf, WhoAsks, declare_run_id
from midstep.server.effects import command_dict, send_command
from midstep.server.models import CommandIn, CommandOut, Verb
from midstep.server.problems import Refusal
from midstep.server.run_table import RunEntry

router = APIRouter(
    prefix="/api/v1/runs/{run_id}/commands",
    tags=["commands"],
    dependencies=[Depends(declare_run_id)],
)
_EFFECT: dict[int | str, dict[str, Any]] = {
    202: {"model": CommandOut, "description": "Accepted; it has not ended yet."}
}


@router.get("", response_model=list[CommandOut])
def commands(run: RunOf, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
    """The command log, newest last."""
    return StrictAnswer([command_dict(record) for record in run.controller.commands(limit=limit)])


@router.post("", response_model=CommandOut, responses=_EFFECT)
async def submit_command(run: RunOf, who: WhoAsks, wanted: CommandIn) -> Response:
    """Submit a command; a repeated id is answered, not repeated."""
    return await send_command(run, wanted.command, wanted.payload, who, wanted.id)


@router.get("/{command_id}", response_model=CommandOut)
def command(run: RunOf, command_id: str) -> Response:
    """What became of a command."""
    return StrictAnswer(command_dict(_find(run, command_id)))


@router.post("/{command_id}/cancel", response_model=CommandOut)
def cancel_command(run: RunOf, command_id: str, _: Verb | None = None) -> Response:
    """Take a waiting command out of the queue, or ask a running one to end."""
    record = _find(run, command_id)
    if not run.controller.cancel(command_id):
        raise Refusal(
            409,
            "ended",
            f"{record.command.name} has already ended ({record.status}); nothing to cancel.",
            command_id=record.command.id,
        )
    return StrictAnswer(command_dict(_find(run, command_id)))


def _find(run: RunEntry, command_id: str) -> CommandRecord:
    record = run.controller.command(command_id)
    if record is None:
        raise Refusal(404, "no_command", "There is no command of this id in the last 10,000.")
    return record
