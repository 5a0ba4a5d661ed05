"""The one ordered queue of commands: who may submit what when, and the record of each command.

Callers on any thread submit commands. The training thread takes them out of the queue at the
boundary (`control.boundary`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from midstep.control.capture.subscriptions import EVERYTHING
from midstep.control.command_record import Command, CommandRecord
from midstep.control.gate import Mode
from midstep.core.commands.catalog import GATE_COMMANDS, RunUntilPayload
from midstep.core.commands.definition import CommandDefinition
from midstep.core.errors import ConfigError, ControlError, FormatError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

MAX_RECORDS = 10_000
MAX_WAITING = 10_000
"""Commands that wait for the training thread; further ones are refused until it has run some."""
RUNNING = "The run is running; pause it first."
STEPPING = "The run still makes the steps that were requested; wait for them, or pause it."
FAILED = "The run raised an exception. Resume or Stop ends it."
STEPPING_VERBS = frozenset({"step", "run_until"})
VERBS = frozenset(each.name for each in GATE_COMMANDS)

Handler = Callable[[Any], Any]
"""Runs a command on the training thread: takes the parsed payload, returns the result.

A handler that returns a generator runs in slices; each value it yields is its progress, 0 to 1.
"""


class CommandQueue:
    """Submit, cancel and look up commands from any thread; register handlers.

    Attributes are changed under the lock.
    """

    def __init__(self, state: ControlState, wall: Callable[[], float]) -> None:
        self._state, self._wall = state, wall
        self._records: dict[str, CommandRecord] = {}
        self._next_seq = 1
        self.waiting: deque[CommandRecord] = deque()
        self.intended_mode: Mode = "run"
        """What the state will be once no command waits."""
        self._closed_reason: str | None = None
        """Why no command is admitted any more: stopped, finished."""
        self._has_failed = False
        """Whether the training raised an error, so that there is no further step."""
        self.running_record: CommandRecord | None = None
        """The command that runs at the boundary now."""
        self.loop_is_idle = False
        """Whether no loop runs and its own thread submits: as safe as a paused run."""
        self._definitions: dict[str, CommandDefinition[Any]] = {
            each.name: each for each in GATE_COMMANDS
        }
        self.handlers: dict[str, Handler] = {}
        self._refusals: dict[str, Callable[[], str | None]] = {}

    # -- any thread's side ------------------------------------------------------------------------

    def submit(self, command: Command, *, raise_invalid: bool = False) -> Future[Any]:
        """Put a command into the queue; the future ends when the command ends.

        The future of a command that is refused at once holds `ControlError`. A repeated id gets
        the future of the first command with that id.

        Args:
            command: what to do.
            raise_invalid: raise for an unknown name or an invalid payload, and leave no record of
                it, instead of recording a refused command.

        Raises:
            ConfigError: with `raise_invalid`, the name or the payload is not valid.
            ControlError: with `raise_invalid`, too many commands wait.
        """
        state = self._state
        with state.lock:
            known = self._records.get(command.id)
            if known is not None:
                # A client that got no answer sends the same id again; it must not run twice.
                return known.future
            # A stop is always admitted: it ends the queue.
            if len(self.waiting) >= MAX_WAITING and command.name != "stop":
                return _refused_future(raise_it=raise_invalid)
            payload: Any = None
            refusal: str | None = None
            try:
                payload = self._parse(command)
            except ConfigError as error:
                if raise_invalid:
                    raise
                refusal = str(error)
            record = self.open_record(command)
            record.payload = payload
            if refusal is None:
                refusal = self._find_refusal(record)
            # A stop of a run that is over has its effect already.
            is_over = command.name == "stop" and self._closed_reason is not None
            if refusal is None and not is_over:
                self._admit(record)
                # Read again once the loop is woken: an idle loop takes no lock and may have made
                # many steps since the record was opened. From here on it makes one at most.
                record.asked_step = state.finished_steps
        # Without the lock: these call sinks and callbacks, which may call the controller.
        if refusal is not None:
            state.finish_command(record, "refused", reason=refusal)
        elif is_over:
            state.finish_command(record, "done")
        state.notify()
        return record.future

    def _parse(self, command: Command) -> Any:
        """Return the parsed payload of a command.

        Raises:
            ConfigError: there is no such command, or its payload is not valid.
        """
        definition = self._definitions.get(command.name)
        if definition is None:
            known = ", ".join(sorted(self._definitions))
            raise ConfigError(f"There is no command {command.name!r}; there are {known}.")
        return definition.parse(command.payload)

    def _find_refusal(self, record: CommandRecord) -> str | None:
        """Return why a command with a valid payload cannot be admitted; None if it can."""
        name = record.command.name
        definition = self._definitions[name]
        if self._closed_reason is not None and name != "stop":
            return f"The run is {self._closed_reason}."
        if name in self._refusals and (reason := self._refusals[name]()) is not None:
            return reason
        if self._has_failed and self._is_move(record):
            return FAILED
        if self.running_record is not None and (
            name in ("resume", "step", "run_until") or definition.moves_training
        ):
            running = self.running_record.command
            return f"The run is busy with {running.name} ({running.id}); wait for it or cancel it."
        # `step` needs a pause even while no loop runs: there is no boundary to grant it at.
        # `intended_mode` counts the queued commands: after a queued pause a step is admitted.
        needs_pause = name == "step" or (definition.needs_pause and not self.loop_is_idle)
        if needs_pause and self.intended_mode == "run":
            return RUNNING
        payload, finished = record.payload, self._state.finished_steps
        if isinstance(payload, RunUntilPayload) and payload.step <= finished:
            return f"Already past step {payload.step:,}; the run is at step {finished:,}."
        return None

    def _is_move(self, record: CommandRecord) -> bool:
        name = record.command.name
        definition = self._definitions.get(name)
        return name in STEPPING_VERBS or (definition is not None and definition.moves_training)

    def _admit(self, record: CommandRecord) -> None:
        """Under the lock: queue the command and wake the training thread."""
        state = self._state
        if record.command.name == "stop":
            state.stop_commands.append(record)  # it bypasses the queue
        else:
            self.waiting.append(record)
            self._apply_intent(record)
        if record.command.name == "pause":
            # The step in progress is the one that the pause shows.
            state.captures.extend_plan(EVERYTHING)
        state.wake()

    def _apply_intent(self, record: CommandRecord) -> None:
        if record.command.name == "pause":
            self.intended_mode = "pause"
        elif record.command.name in ("resume", "run_until"):
            self.intended_mode = "run"

    def request(self, name: str, **payload: Any) -> None:
        """Submit a command by name.

        Raises:
            ControlError: the command was refused at once.
        """
        future = self.submit(Command(name=name, payload=payload))
        if future.done() and (error := future.exception()) is not None:
            raise error

    def cancel(self, command_id: str) -> bool:
        """Refuse a command that still waits, or end one early that runs in slices.

        Returns:
            False if the command is unknown or has ended.
        """
        state = self._state
        with state.lock:
            record = self._records.get(command_id)
            is_waiting = record is not None and record in self.waiting
            if record is None or not (is_waiting or record is self.running_record):
                return False
            record.cancelled = True
            if is_waiting:
                self.waiting.remove(record)
                # The gate and the commands left decide the intended mode.
                self.intended_mode = state.gate.mode
                for waiting in self.waiting:
                    self._apply_intent(waiting)
                state.wake()
        if is_waiting:
            state.finish_command(record, "refused", reason="Cancelled before it began.")
        return True

    def find(self, command_id: str) -> CommandRecord | None:
        """Return the record of a command, among the last 10,000."""
        with self._state.lock:
            return self._records.get(command_id)

    def latest(self, limit: int = 100) -> list[CommandRecord]:
        """Return the last records, newest last."""
        with self._state.lock:
            return list(self._records.values())[-limit:]

    def load_history(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Add the commands of an earlier process from their facts, so that ids are not repeated.

        New commands are numbered after them. A fact that is none of a command is left out.
        """
        with self._state.lock:
            for fact in facts:
                with suppress(FormatError):
                    record = CommandRecord.from_fact(fact, now=self._state.clock())
                    self._records.setdefault(record.command.id, record)
                    self._next_seq = max(self._next_seq, record.seq + 1)

    def register(self, definition: CommandDefinition[Any], handler: Handler) -> Callable[[], None]:
        """Offer a command; return a function that withdraws it. A name can be registered once."""
        return self.register_all({definition: handler})

    def register_all(
        self, handlers: Mapping[CommandDefinition[Any], Handler]
    ) -> Callable[[], None]:
        """Offer all these commands or none; return a function that withdraws them."""
        offered = {name: each for each in handlers for name in each.names}
        with self._state.lock:
            for name in offered:
                if name in self._definitions:
                    raise ConfigError(f"a command {name!r} is registered already")
            for name, definition in offered.items():
                self._definitions[name], self.handlers[name] = definition, handlers[definition]

        def withdraw() -> None:
            with self._state.lock:
                for name in offered:
                    self._definitions.pop(name, None)
                    self.handlers.pop(name, None)

        return withdraw

    def refuse_if(
        self, definition: CommandDefinition[Any], reason: Callable[[], str | None]
    ) -> None:
        """Refuse a command while `reason` returns one; called under the lock, at each submit."""
        with self._state.lock:
            self._refusals.update(dict.fromkeys(definition.names, reason))

    @property
    def registry(self) -> Mapping[str, CommandDefinition[Any]]:
        """The definitions of all registered commands by name; an alias is a name too."""
        return dict(self._definitions)

    @property
    def submitted_by(self) -> str | None:
        """Who submitted the command that runs at the boundary now; None when none runs."""
        running = self.running_record
        return None if running is None else running.command.who

    # -- called under the lock --------------------------------------------------------------------

    def open_record(self, command: Command) -> CommandRecord:
        """Return a new record with the next number of the order."""
        record = CommandRecord(
            command=command,
            seq=self._next_seq,
            submitted_at=self._wall(),
            submitted_mono=self._state.clock(),
            asked_step=self._state.finished_steps,
        )
        record.future.set_running_or_notify_cancel()  # only the run itself can cancel a command
        self._next_seq += 1
        self._records[command.id] = record
        if len(self._records) > MAX_RECORDS:
            self._forget_oldest()
        return record

    def _forget_oldest(self) -> None:
        """Forget the oldest commands that have ended; those that wait are kept beyond the limit."""
        ended = (key for key, record in self._records.items() if record.has_ended)
        for key in list(islice(ended, len(self._records) - MAX_RECORDS)):
            del self._records[key]

    def gate_closed(self) -> None:
        """Note that the gate closed without a command: at a breakpoint, or at a step reached."""
        modes = {"pause", "resume", "run_until"}
        # A waiting pause or resume is newer than this, so it decides.
        if not any(record.command.name in modes for record in self.waiting):
            self.intended_mode = "pause"

    def fail(self) -> list[CommandRecord]:
        """Note that the training raised; remove and return the commands that would move it."""
        self._has_failed, self.intended_mode = True, "pause"
        moves = [record for record in self.waiting if self._is_move(record)]
        for record in moves:
            self.waiting.remove(record)
        return moves

    def close(self, reason: str) -> list[CommandRecord]:
        """Admit no further command; remove and return those that still wait."""
        self._closed_reason = reason
        waiting = list(self.waiting)
        self.waiting.clear()
        return waiting


def _refused_future(*, raise_it: bool) -> Future[Any]:
    """The future of a command that leaves no record, because too many wait already."""
    refusal = ControlError(
        f"{MAX_WAITING:,} commands wait for the run already; send it again when some have ended"
    )
    if raise_it:
        raise refusal
    future: Future[Any] = Future()
    future.set_exception(refusal)
    return future
