"""`CommandRunner`: carries out one command on the training thread."""

from __future__ import annotations

import logging
from types import GeneratorType
from typing import Any

from midstep.control.command_queue import RUNNING, STEPPING, VERBS
from midstep.control.command_record import CommandRecord, Status, StepsToPass
from midstep.control.control_state import ControlState
from midstep.core.commands.catalog import RunUntilPayload, StepPayload
from midstep.core.errors import ControlError

log = logging.getLogger("midstep.control")


class CommandRunner:
    """Runs commands between two steps, or while the training thread is parked.

    Handlers are called without the lock, because they may call the controller.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def run(self, record: CommandRecord) -> None:
        """Run an admitted command and answer it; refuse it if it cannot be carried out now."""
        record.status, record.step = "running", self._state.finished_steps
        refusal = self._refusal_now(record)
        if refusal is not None:
            self._state.finish_command(record, "refused", reason=refusal)
        elif record.command.name in VERBS:
            with self._state.lock:
                self._run_verb(record)
        else:
            self._run_handler(record)

    def _refusal_now(self, record: CommandRecord) -> str | None:
        """Why a command that was admitted cannot be carried out now; None when it can."""
        gate, queue = self._state.gate, self._state.queue
        name = record.command.name
        moves = queue.registry[name].moves_training
        if gate.mode == "run" and (name == "step" or (moves and not queue.loop_is_idle)):
            return RUNNING  # the pause it was admitted after has been cancelled
        return STEPPING if moves and gate.grants else None

    def _run_verb(self, record: CommandRecord) -> None:
        """Under the lock: carry out a verb. It is answered once its effect is there."""
        gate, complete = self._state.gate, self._state.completed_commands
        if isinstance(record.payload, StepPayload):
            gate.grant(record, record.payload.n)
        elif isinstance(record.payload, RunUntilPayload):
            complete += gate.run_until(record, record.payload.step)
        else:
            turn = gate.pause if record.command.name == "pause" else gate.resume
            complete += [*turn(), record]

    def _run_handler(self, record: CommandRecord) -> None:
        state = self._state
        with state.lock:
            state.queue.running_record = record
            handler = state.queue.handlers[record.command.name]
        state.notify()
        status: Status = "done"
        result: Any = None
        reason: str | None = None
        try:
            result = self._run_slices(handler(record.payload), record)
        except Exception as error:
            # Whatever a command raises is its result; the training goes on.
            log.info("command %s failed", record.command.name, exc_info=True)
            own = isinstance(error, ControlError)  # made to be read as it is
            status, reason = "failed", str(error) if own else f"{type(error).__name__}: {error}"
        with state.lock:
            state.queue.running_record = None
            # The user's loop has yet to repeat these steps; the gate answers at the last one.
            if isinstance(result, StepsToPass):
                record.answer = result.answer
                state.gate.grant(record, result.n)
                return
        state.finish_command(record, status, reason=reason, result=result)

    def _run_slices(self, returned: Any, record: CommandRecord) -> Any:
        """Run a generator command to its end, slice by slice; anything else is the result."""
        if not isinstance(returned, GeneratorType):
            return returned
        # Between two slices a stop or a cancel takes effect, and viewers see the progress.
        while True:
            try:
                record.progress = next(returned)
            except StopIteration as end:
                return end.value
            if record.cancelled or self._state.stop_commands:
                returned.close()
                raise ControlError("cancelled" if record.cancelled else "the run was stopped")
            self._state.notify()
