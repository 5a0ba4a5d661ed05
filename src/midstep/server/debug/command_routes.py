"""Routes of verbs and commands: submit one, wait up to 2 s for its effect, read the command log."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from midstep.control import Command, CommandRecord
from midstep.control.command_queue import CommandQueue
from midstep.control.command_record import Who
from midstep.core.commands.catalog import BACK, COMMANDS
from midstep.core.commands.definition import CommandDefinition
from midstep.core.errors import ConfigError
from midstep.core.ids import new_command_id
from midstep.server.debug.command_schemas import (
    CommandIn,
    CommandOut,
    RewindOut,
    StateOut,
    Verb,
    command_json,
    verb_model,
)
from midstep.server.dependencies import CallerDependency, RunDependency, declare_run_id
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_view import RunView

EFFECT_WAIT_S = 2.0
"""How long a response waits for the effect of a command before it says 202."""


def _accepted(description: str) -> dict[int | str, dict[str, Any]]:
    return {202: {"model": CommandOut, "description": description}}


_VERB_ACCEPTED = _accepted("Accepted; its effect takes longer than 2 s.")
_COMMAND_ACCEPTED = _accepted("Accepted; it has not ended yet.")

# Three routers, because `create_app` adds them at different places: routes are tried in order.
router = APIRouter()
rewind_router = APIRouter()
log_router = APIRouter(
    prefix="/api/v1/runs/{run_id}/commands",
    tags=["commands"],
    dependencies=[Depends(declare_run_id)],
)


# -- the state and the verbs ----------------------------------------------------------------------


@router.get("/state", response_model=StateOut)
def state(run: RunDependency) -> Response:
    """Return the state of the run."""
    return StrictJsonResponse(run.state())


@rewind_router.get("/rewind", response_model=RewindOut)
def rewind(run: RunDependency) -> Response:
    """Return how far back the run can go, and what that costs."""
    return StrictJsonResponse(run.rewind())


def _add_verb(definition: CommandDefinition[Any]) -> None:
    """Add the route of a verb; its body is the payload of the command and an id."""
    model = verb_model(definition)
    needs_body = any(field.is_required for field in definition.fields.values())

    async def run_verb(run: RunDependency, who: CallerDependency, verb: Any = None) -> Response:
        body = verb or model()
        if definition is BACK:
            await _check_rewind(run)
        payload = body.model_dump(exclude={"id"}, exclude_none=True)
        record = await _submit(run, _command(definition.name, payload, who, body.id))
        if not record.has_ended:
            return StrictJsonResponse(command_json(record), status_code=202)
        if record.status != "done":
            raise _refusal(run, record)
        return StrictJsonResponse(run.state())

    # FastAPI reads name, docstring and signature: they become the operation of this verb.
    run_verb.__name__, run_verb.__doc__ = definition.name, definition.help
    run_verb.__annotations__["verb"] = model if needs_body else model | None
    if needs_body:
        run_verb.__defaults__ = None
    target = rewind_router if definition is BACK else router
    target.add_api_route(
        f"/{definition.name}",
        run_verb,
        methods=["POST"],
        response_model=StateOut,
        responses=_VERB_ACCEPTED,
    )


async def _check_rewind(run: RunView) -> None:
    """Refuse to go back where the run offers no way back, with the reason of the run."""
    # In a thread: whether a stored run can be reached is read from disk.
    control = await run_in_threadpool(run.control)
    if BACK.name not in control.queue.registry:
        reason = run.rewind()["reason"]
        sentences = ("This run cannot go back.", reason)
        raise Refusal(409, "no_rewind", " ".join(filter(None, sentences)))


for each in COMMANDS.values():
    if each.verb:
        _add_verb(each)


# -- the command log ------------------------------------------------------------------------------


@log_router.get("", response_model=list[CommandOut])
def commands(run: RunDependency, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
    """Return the command log, newest last."""
    return StrictJsonResponse([command_json(record) for record in run.commands(limit)])


@log_router.post("", response_model=CommandOut, responses=_COMMAND_ACCEPTED)
async def submit_command(run: RunDependency, who: CallerDependency, wanted: CommandIn) -> Response:
    """Submit a command; a repeated id is answered, not repeated."""
    record = await _submit(run, _command(wanted.command, wanted.payload, who, wanted.id))
    if record.status == "refused":
        raise _refusal(run, record)
    return StrictJsonResponse(command_json(record), status_code=200 if record.has_ended else 202)


@log_router.get("/{command_id}", response_model=CommandOut)
def command(run: RunDependency, command_id: str) -> Response:
    """Return what became of a command."""
    return StrictJsonResponse(command_json(_find(run, command_id)))


@log_router.post("/{command_id}/cancel", response_model=CommandOut)
def cancel_command(run: RunDependency, command_id: str, _: Verb | None = None) -> Response:
    """Cancel a waiting command, or ask a running one to end."""
    record = _find(run, command_id)
    if record.has_ended or not run.control().queue.cancel(command_id):
        raise Refusal(
            409,
            "ended",
            f"{record.command.name} has already ended ({record.status}); nothing to cancel.",
            command_id=record.command.id,
        )
    return StrictJsonResponse(command_json(_find(run, command_id)))


def _find(run: RunView, command_id: str) -> CommandRecord:
    record = run.command(command_id)
    if record is None:
        raise Refusal(404, "no_command", "There is no command of this id in the last 10,000.")
    return record


# -- submitting a command and waiting for its effect ----------------------------------------------


def _command(name: str, payload: dict[str, Any], who: Who, command_id: str | None) -> Command:
    return Command(name=name, payload=payload, who=who, id=command_id or new_command_id())


async def _submit(run: RunView, command: Command) -> CommandRecord:
    """Return the record of a command, after its effect or after 2 s."""
    record = run.command(command.id)
    if record is None:
        _submit_valid(run.control().queue, command)
        record = run.command(command.id)
        assert record is not None  # noqa: S101 - it was submitted just now
    # A known id is a retry: it gets its answer, also when the run has ended since.
    await _wait_for(record.future, EFFECT_WAIT_S)
    return record


def _submit_valid(queue: CommandQueue, command: Command) -> None:
    """Submit; a wrong name or payload is a mistake of the caller (422), not of the state (409)."""
    try:
        queue.submit(command, raise_invalid=True)
    except ConfigError as error:
        if command.name in queue.registry:
            raise Refusal(422, "invalid", str(error), field="payload") from None
        raise Refusal(422, "unknown_command", str(error), field="command") from None


async def _wait_for(future: Future[Any], timeout_s: float) -> None:
    """Wait for the future; a caller that disconnects does not cancel the command."""
    if future.done():
        return
    ended = _Ended()
    future.add_done_callback(ended)
    try:
        await asyncio.wait_for(ended.wait(), timeout_s)
    except TimeoutError:
        return
    finally:
        ended.forget()


class _Ended:
    """Wakes the event loop when a future is done; a future keeps its callbacks for ever."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self._event: asyncio.Event | None = asyncio.Event()

    def __call__(self, _: Future[Any]) -> None:
        loop, event = self._loop, self._event
        if loop is not None and event is not None and not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Wait until the future is done."""
        if self._event is not None:
            await self._event.wait()

    def forget(self) -> None:
        """Keep nothing: the records of ten thousand commands are kept, with their futures."""
        self._loop = self._event = None


def _refusal(run: RunView, record: CommandRecord) -> Refusal:
    reason = record.reason or f"{record.command.name} {record.status}"
    return Refusal(409, _error_name(run, record), reason, command_id=record.command.id)


def _error_name(run: RunView, record: CommandRecord) -> str:
    """Return the stable name of a refusal, by which the page offers a remedy."""
    if record.status != "refused":
        return record.status
    state = run.state()
    if state["state"] in ("stopped", "finished", "failed"):
        return str(state["state"])
    if state["busy_with"] is not None:
        return "busy"
    return "refused" if state["paused"] else "running"
