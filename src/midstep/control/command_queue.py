"""The one ordered queue of commands: who may submit what when, and the record of each command.

Callers on any thread use `CommandQueue`. It takes the lock and changes the `CommandTable`. The
training thread takes commands out of the table at the boundary (`control.boundary`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from midstep.control.command_record import Command, CommandRecord
from midstep.control.gate import Mode
from midstep.core.commands.catalog import GATE_COMMANDS, RunUntilPayload
from midstep.core.commands.definition import CommandDefinition
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

MAX_RECORDS = 10_000
RUNNING = "The run is running; pause it first."
STEPPING = "The run still makes the steps that were requested; wait for them, or pause it."
FAILED = "The run has failed; resume or stop lets it end."
STEPPING_VERBS = frozenset({"step", "run_until"})
VERBS = frozenset(each.name for each in GATE_COMMANDS)

Handler = Callable[[Any], Any]
"""Runs a command on the training thread: takes the parsed payload, returns the result.

A handler that returns a generator runs in slices; each value it yields is its progress, 0 to 1.
"""


class CommandTable:
    """Registered commands, waiting commands, and the records of all.

    Not thread-safe: every caller holds the lock of `ControlState`.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._records: dict[str, CommandRecord] = {}
        self._next_seq = 1
        self.queue: deque[CommandRecord] = deque()
        self.intended_mode: Mode = "run"
        """What the state will be once the queue is empty."""
        self.closed_reason: str | None = None
        """Why no command is admitted any more: stopped, finished."""
        self.has_failed = False
        """Whether the training raised an error, so that there is no further step."""
        self.running_record: CommandRecord | None = None
        """The command that runs at the boundary now."""
        self.loop_is_idle = False
        """Whether no loop runs and its own thread submits: as safe as a paused run."""
        self.registry: dict[str, CommandDefinition[Any]] = {
            each.name: each for each in GATE_COMMANDS
        }
        self.handlers: dict[str, Handler] = {}

    def register(self, handlers: Mapping[CommandDefinition[Any], Handler]) -> list[str]:
        """Add commands under their names and aliases; return these. Adds all or none."""
        names = [name for definition in handlers for name in definition.names]
        for name in names:
            if name in self.registry:
                raise ConfigError(f"a command {name!r} is registered already")
        for definition, handler in handlers.items():
            for name in definition.names:
                self.registry[name], self.handlers[name] = definition, handler
        return names

    def unregister(self, names: Iterable[str]) -> None:
        """Remove these commands."""
        for name in names:
            self.registry.pop(name, None)
            self.handlers.pop(name, None)

    def find(self, command_id: str) -> CommandRecord | None:
        """Return the record of a command, among the last 10,000."""
        return self._records.get(command_id)

    def latest(self, limit: int) -> list[CommandRecord]:
        """Return the last records, newest last."""
        return list(self._records.values())[-limit:]

    def open_record(self, command: Command, finished: int) -> CommandRecord:
        """Return a new record with the next number of the order."""
        record = CommandRecord(
            command=command,
            seq=self._next_seq,
            submitted_at=self._wall(),
            submitted_mono=self._clock(),
            asked_step=finished,
        )
        record.future.set_running_or_notify_cancel()  # only the run itself can cancel a command
        self._next_seq += 1
        self._records[command.id] = record
        if len(self._records) > MAX_RECORDS:
            self._forget_oldest()
        return record

    def load_history(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Add the commands of an earlier process; new ones are numbered after them."""
        for fact in facts:
            record = CommandRecord.from_fact(fact, now=self._clock())
            self._records.setdefault(record.command.id, record)
            self._next_seq = max(self._next_seq, record.seq + 1)

    def _forget_oldest(self) -> None:
        for key, record in self._records.items():
            if record.has_ended:
                del self._records[key]
                return

    def parse(self, command: Command) -> Any:
        """Return the parsed payload of a command.

        Raises:
            ConfigError: there is no such command, or its payload is not valid.
        """
        definition = self.registry.get(command.name)
        if definition is None:
            known = ", ".join(sorted(self.registry))
            raise ConfigError(f"There is no command {command.name!r}; there are {known}.")
        return definition.parse(command.payload)

    def find_refusal(self, record: CommandRecord, finished: int) -> str | None:
        """Return why a command with a valid payload cannot be admitted; None if it can."""
        name = record.command.name
        definition = self.registry[name]
        if self.closed_reason is not None and name != "stop":
            return f"The run is {self.closed_reason}."
        if self.has_failed and self._is_move(record):
            return FAILED
        if self.running_record is not None and (
            name in ("resume", "step", "run_until") or definition.moves_training
        ):
            running = self.running_record.command
            return f"The run is busy with {running.name} ({running.id}); wait for it or cancel it."
        # `step` needs a pause even while no loop runs: there is no boundary to grant it at.
        needs_pause = name == "step" or (definition.needs_pause and not self.loop_is_idle)
        if needs_pause and self.intended_mode == "run":
            return RUNNING
        payload = record.payload
        if isinstance(payload, RunUntilPayload) and payload.step <= finished:
            return f"Already past step {payload.step:,}; the run is at step {finished:,}."
        return None

    def admit(self, record: CommandRecord) -> None:
        """Put an admitted command at the end of the queue."""
        self.queue.append(record)
        self._apply_intent(record)

    def _apply_intent(self, record: CommandRecord) -> None:
        if record.command.name == "pause":
            self.intended_mode = "pause"
        elif record.command.name in ("resume", "run_until"):
            self.intended_mode = "run"

    def withdraw(self, record: CommandRecord, mode: Mode) -> None:
        """Remove a waiting command; `mode` and the commands left decide the intended mode."""
        self.queue.remove(record)
        self.intended_mode = mode
        for waiting in self.queue:
            self._apply_intent(waiting)

    def gate_closed(self) -> None:
        """Note that the gate closed without a command: at a breakpoint, or at a step reached."""
        modes = {"pause", "resume", "run_until"}
        # A waiting pause or resume is newer than this, so it decides.
        if not any(record.command.name in modes for record in self.queue):
            self.intended_mode = "pause"

    def fail(self) -> list[CommandRecord]:
        """Note that the training raised; remove and return the commands that would move it."""
        self.has_failed, self.intended_mode = True, "pause"
        moves = [record for record in self.queue if self._is_move(record)]
        for record in moves:
            self.queue.remove(record)
        return moves

    def _is_move(self, record: CommandRecord) -> bool:
        name = record.command.name
        definition = self.registry.get(name)
        return name in STEPPING_VERBS or (definition is not None and definition.moves_training)

    def close(self, reason: str) -> list[CommandRecord]:
        """Admit no further command; remove and return those that still wait."""
        self.closed_reason = reason
        waiting = list(self.queue)
        self.queue.clear()
        return waiting


class CommandQueue:
    """Submit, cancel and look up commands from any thread; register handlers."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

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
        """
        state, table = self._state, self._state.command_table
        with state.lock:
            known = table.find(command.id)
            if known is not None:
                return known.future
            payload: Any = None
            refusal: str | None = None
            try:
                payload = table.parse(command)
            except ConfigError as error:
                if raise_invalid:
                    raise
                refusal = str(error)
            record = table.open_record(command, state.finished_steps)
            record.payload = payload
            if refusal is None:
                refusal = table.find_refusal(record, state.finished_steps)
            # A stop of a run that is over has its effect already.
            is_over = command.name == "stop" and table.closed_reason is not None
            if refusal is None and not is_over:
                self._admit(record)
        if refusal is not None:
            state.finish_command(record, "refused", reason=refusal)
        elif is_over:
            state.finish_command(record, "done")
        state.notify()
        return record.future

    def _admit(self, record: CommandRecord) -> None:
        """Under the lock: queue the command and wake the training thread."""
        state = self._state
        if record.command.name == "stop":
            state.stop_commands.append(record)  # it bypasses the queue
        else:
            state.command_table.admit(record)
        if record.command.name == "pause":
            state.captures.clones_step = True
        state.wake()

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
        state, table = self._state, self._state.command_table
        with state.lock:
            record = table.find(command_id)
            waiting = record is not None and record in table.queue
            if record is None or not (waiting or record is table.running_record):
                return False
            record.cancelled = True
            if waiting:
                table.withdraw(record, state.gate.mode)
                state.wake()
        if waiting:
            state.finish_command(record, "refused", reason="Cancelled before it began.")
        return True

    def find(self, command_id: str) -> CommandRecord | None:
        """Return the record of a command, among the last 10,000."""
        with self._state.lock:
            return self._state.command_table.find(command_id)

    def latest(self, limit: int = 100) -> list[CommandRecord]:
        """Return the last records, newest last."""
        with self._state.lock:
            return self._state.command_table.latest(limit)

    def load_history(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Add the commands of an earlier process from their facts, so that ids are not repeated."""
        with self._state.lock:
            self._state.command_table.load_history(facts)

    def register(self, definition: CommandDefinition[Any], handler: Handler) -> Callable[[], None]:
        """Offer a command; return a function that withdraws it. A name can be registered once."""
        return self.register_all({definition: handler})

    def register_all(
        self, handlers: Mapping[CommandDefinition[Any], Handler]
    ) -> Callable[[], None]:
        """Offer several commands; return a function that withdraws them all."""
        with self._state.lock:
            names = self._state.command_table.register(handlers)

        def withdraw() -> None:
            with self._state.lock:
                self._state.command_table.unregister(names)

        return withdraw

    @property
    def registry(self) -> Mapping[str, CommandDefinition[Any]]:
        """The definitions of all registered commands by name; an alias is a name too."""
        return dict(self._state.command_table.registry)

    @property
    def asked_by(self) -> str | None:
        """Who submitted the command that runs at the boundary now; None when none runs."""
        running = self._state.command_table.running_record
        return None if running is None else running.command.who
