"""Submitting commands and waiting a moment for their effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from starlette.responses import Response

from midstep.control import Command, CommandRecord, CommandSpec
from midstep.control.command_table import make_payload
from midstep.core.errors import ConfigError
from midstep.core.ids import new_command_id
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_view import LiveRunView
from midstep.server.schema_base import Who

__all__ = ["EFFECT_WAIT_S", "command_dict", "run_command", "run_verb"]

EFFECT_WAIT_S = 2.0
"""How long an answer waits for the effect before it says 202."""


async def run_verb(
    entry: LiveRunView, name: str, payload: Mapping[str, Any], who: Who, command_id: str | None
) -> Response:
    """Carry out a verb: 200 with the state after it, 202 with the command, or 409."""
    record = await _submit(entry, name, payload, who, command_id)
    if not record.has_ended:
        return StrictJsonResponse(command_dict(record), status_code=202)
    if record.status != "done":
        raise _refused(entry, record)
    return StrictJsonResponse(entry.state())


async def run_command(
    entry: LiveRunView, name: str, payload: Mapping[str, Any], who: Who, command_id: str | None
) -> Response:
    """Carry out any command: 200 once it ended, 202 while it runs, 409 when refused."""
    record = await _submit(entry, name, payload, who, command_id)
    if record.status == "refused":
        raise _refused(entry, record)
    return StrictJsonResponse(command_dict(record), status_code=200 if record.has_ended else 202)


async def _submit(
    entry: LiveRunView, name: str, payload: Mapping[str, Any], who: Who, command_id: str | None
) -> CommandRecord:
    controller = entry.controller
    chosen = command_id or new_command_id()
    if (
        controller.queue.find(chosen) is None
    ):  # a repeated id is answered, whatever became of the run
        entry.check_open()
        _check_payload(controller.queue.registry, name, payload)
    future = controller.submit(Command(name=name, payload=dict(payload), who=who, id=chosen))
    await _effect(future, EFFECT_WAIT_S)
    record = controller.queue.find(chosen)
    assert isinstance(record, CommandRecord)  # noqa: S101 - it was submitted just now
    return record


def _check_payload(
    registry: Mapping[str, CommandSpec], name: str, payload: Mapping[str, Any]
) -> None:
    """A wrong name or payload is the caller's mistake (422), not a matter of state (409)."""
    spec = registry.get(name)
    if spec is None:
        known = ", ".join(sorted(registry))
        message = f"There is no command {name!r}; there are {known}."
        raise Refusal(422, "unknown_command", message, field="command")
    try:
        make_payload(spec, payload)
    except ConfigError as error:
        raise Refusal(422, "invalid", str(error), field="payload") from None


async def _effect(future: Future[Any], timeout_s: float) -> None:
    """Wait for the future without owning it: a caller that goes away cancels nothing."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def tell(_: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ended.set)

    future.add_done_callback(tell)
    try:
        await asyncio.wait_for(ended.wait(), timeout_s)
    except TimeoutError:
        return


def _refused(entry: LiveRunView, record: CommandRecord) -> Refusal:
    reason = record.reason or f"{record.command.name} {record.status}"
    return Refusal(409, _word(entry, record), reason, command_id=record.command.id)


def _word(entry: LiveRunView, record: CommandRecord) -> str:
    """The stable word for a refusal, so that the page can offer the way out."""
    state = entry.controller.get_state()
    if record.status != "refused":
        return record.status
    if state["state"] in ("stopped", "finished", "failed"):
        return str(state["state"])
    if state["busy_with"] is not None:
        return "busy"
    return "refused" if state["paused"] else "running"


def command_dict(record: CommandRecord) -> dict[str, Any]:
    """A record as `CommandOut`."""
    command = record.command
    return {
        "id": command.id,
        "seq": record.seq,
        "command": command.name,
        "payload": dict(command.payload),
        "who": command.who,
        "status": record.status,
        "reason": record.reason,
        "result": record.result,
        "step": record.step,
        "submitted_at": record.submitted_at,
        "duration_s": record.duration_s,
        "progress": record.progress,
    }
