"""The one ordered queue of commands, for callers on any thread.

The training thread takes the commands out at the boundary (`control.boundary`). The rules of
admission and the records are in `control.command_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from midstep.control.command_record import Command, CommandRecord, CommandSpec
from midstep.control.control_state import ControlState


class CommandQueue:
    """Submit, cancel and look up commands; rooms above register the commands they serve."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def submit(self, command: Command) -> Future[Any]:
        """Put a command into the queue; the future ends when the command ends.

        The future of a command that is refused at once holds `ControlError`. A repeated id gets
        the future of the first command with that id.
        """
        state = self._state
        with state.lock:
            known = state.command_table.find(command.id)
            if known is not None:
                return known.future
            record = state.command_table.open_record(command, state.finished_steps)
            refusal = state.command_table.find_refusal(command, state.finished_steps)
            over = command.name == "stop" and state.command_table.closed_reason is not None
            if refusal is None and not over:
                self._admit(record)
        if refusal is not None:
            state.finish_command(record, "refused", reason=refusal)
        elif over:
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
            state.capture_store.clones_step = True
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
        state = self._state
        with state.lock:
            record = state.command_table.find(command_id)
            waiting = record is not None and record in state.command_table.queue
            if record is None or not (waiting or record is state.command_table.running_record):
                return False
            record.cancelled = True
            if waiting:
                state.command_table.withdraw(record, state.gate.mode)
                state.wake()
        if waiting:
            state.finish_command(record, "refused", reason="Cancelled before it began.")
        return True

    def find(self, command_id: str) -> CommandRecord | None:
        """The record of a command, among the last 10,000."""
        with self._state.lock:
            return self._state.command_table.find(command_id)

    def latest(self, limit: int = 100) -> list[CommandRecord]:
        """The last records, newest last."""
        with self._state.lock:
            return self._state.command_table.latest(limit)

    def load_history(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Add the commands of an earlier process from their facts, so that ids are not repeated."""
        with self._state.lock:
            self._state.command_table.load_history(facts)

    def register(self, spec: CommandSpec) -> None:
        """Offer a command; a name can be registered once."""
        with self._state.lock:
            self._state.command_table.register(spec)

    def unregister(self, names: Iterable[str]) -> None:
        """Withdraw these commands; a loop that ends withdraws its own."""
        with self._state.lock:
            for name in names:
                self._state.command_table.registry.pop(name, None)

    @property
    def registry(self) -> Mapping[str, CommandSpec]:
        """Every registered command by name."""
        return dict(self._state.command_table.registry)

    @property
    def asked_by(self) -> str | None:
        """Who submitted the command that runs at the boundary now; None when none runs."""
        running = self._state.command_table.running_record
        return None if running is None else running.command.who
