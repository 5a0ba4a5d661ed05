"""The desk: one ordered queue of verbs and commands, and the record of each.

Not thread-safe by itself: the controller calls it under its one lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.control.command_record import Command, CommandRecord, CommandSpec
from midstep.control.gate import Mode
from midstep.core.errors import ConfigError

MAX_RECORDS = 10_000
RUNNING = "The run is running; pause it first."
STEPPING = "The run still makes the steps it was asked for; wait until it stands, or pause it."
FAILED = "The run has failed; resume or stop lets it end."
STEPPING_VERBS = frozenset({"step", "run_until"})
VERBS = frozenset({"pause", "resume", "step", "run_until", "stop"})


@dataclass(frozen=True, kw_only=True)
class NoPayload:
    """A command without settings."""


@dataclass(frozen=True, kw_only=True)
class StepPayload:
    """How many steps to let pass."""

    n: int = 1
    """At least 1."""

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ConfigError(f"n must be a whole number of at least 1, got {self.n!r}")


@dataclass(frozen=True, kw_only=True)
class RunUntilPayload:
    """Where to park."""

    step: int
    """Finished steps."""

    def __post_init__(self) -> None:
        if isinstance(self.step, bool) or not isinstance(self.step, int) or self.step < 0:
            raise ConfigError(f"step must be a whole number of at least 0, got {self.step!r}")


def _never_called(payload: object) -> None:
    raise AssertionError(f"verbs are carried out by the gate, not called: {payload!r}")


def _verb_spec(name: str, payload: type, help_: str) -> CommandSpec:
    return CommandSpec(name=name, payload=payload, run=_never_called, help=help_)


class CommandTable:
    """Admits or refuses commands against the intended state, and keeps their records."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._records: dict[str, CommandRecord] = {}
        self._next_seq = 1
        self.queue: deque[CommandRecord] = deque()
        self.intended_mode: Mode = "run"
        """What the state will be once the queue is empty."""
        self.closed_reason: str | None = None
        """Why nothing is admitted any more: stopped, finished."""
        self.has_failed = False
        """Whether the training raised: there is no further step to make."""
        self.running_record: CommandRecord | None = None
        """The command that runs at the boundary now."""
        self.loop_is_idle = False
        """Whether the loop is not on and its thread asks: as good as parked."""
        verbs = (
            _verb_spec("pause", NoPayload, "Park at the next step boundary."),
            _verb_spec("resume", NoPayload, "Go on."),
            _verb_spec("step", StepPayload, "Let n steps pass, then park again."),
            _verb_spec("run_until", RunUntilPayload, "Go on, park when a step is reached."),
            _verb_spec("stop", NoPayload, "End the training at the next boundary."),
        )
        self.registry: dict[str, CommandSpec] = {spec.name: spec for spec in verbs}

    def register(self, spec: CommandSpec) -> None:
        """Add a command; a name is taken once."""
        if spec.name in self.registry:
            raise ConfigError(f"a command {spec.name!r} is registered already")
        self.registry[spec.name] = spec

    def find(self, command_id: str) -> CommandRecord | None:
        """The record of a command, among the last 10,000."""
        return self._records.get(command_id)

    def latest(self, limit: int) -> list[CommandRecord]:
        """The last records, newest last."""
        return list(self._records.values())[-limit:]

    def open_record(self, command: Command, finished: int) -> CommandRecord:
        """A new record with its place in the order."""
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
        """Know the commands of an earlier process again; the order goes on behind them."""
        for fact in facts:
            record = CommandRecord.from_fact(fact, now=self._clock())
            self._records.setdefault(record.command.id, record)
            self._next_seq = max(self._next_seq, record.seq + 1)

    def _forget_oldest(self) -> None:
        for key, record in self._records.items():
            if record.has_ended:
                del self._records[key]
                return

    def find_refusal(self, command: Command, finished: int) -> str | None:
        """Why `command` cannot be admitted; None when it can."""
        spec = self.registry.get(command.name)
        if spec is None:
            known = ", ".join(sorted(self.registry))
            return f"There is no command {command.name!r}; there are {known}."
        if self.closed_reason is not None and command.name != "stop":
            return f"The run is {self.closed_reason}."
        try:
            payload = make_payload(spec, command.payload)
        except ConfigError as error:
            return str(error)
        return self._refusal_now(command.name, spec, payload, finished)

    def _refusal_now(
        self, name: str, spec: CommandSpec, payload: object, finished: int
    ) -> str | None:
        if self.has_failed and (name in STEPPING_VERBS or spec.moves):
            return FAILED
        if self.running_record is not None and (
            name in ("resume", "step", "run_until") or spec.moves
        ):
            busy = self.running_record.command
            return f"The run is busy with {busy.name} ({busy.id}); wait for it or cancel it."
        needs_park = spec.parked_only and not self.loop_is_idle
        if (name == "step" or needs_park) and self.intended_mode == "run":
            return RUNNING
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
        """Take a waiting command out; what is intended follows from `mode` and the others."""
        self.queue.remove(record)
        self.intended_mode = mode
        for waiting in self.queue:
            self._apply_intent(waiting)

    def gate_closed(self) -> None:
        """The gate closed by itself (a breakpoint, a step reached): no wish of anybody's."""
        modes = {"pause", "resume", "run_until"}
        if not any(record.command.name in modes for record in self.queue):
            self.intended_mode = "pause"

    def fail(self) -> list[CommandRecord]:
        """The training raised: nothing can move it; gives back what waited for that."""
        self.has_failed, self.intended_mode = True, "pause"
        moves = [record for record in self.queue if self._is_move(record)]
        for record in moves:
            self.queue.remove(record)
        return moves

    def _is_move(self, record: CommandRecord) -> bool:
        name = record.command.name
        return name in STEPPING_VERBS or (name in self.registry and self.registry[name].moves)

    def close(self, reason: str) -> list[CommandRecord]:
        """Admit nothing any more; gives back what was still waiting."""
        self.closed_reason = reason
        waiting = list(self.queue)
        self.queue.clear()
        return waiting


def make_payload(spec: CommandSpec, payload: Mapping[str, Any]) -> object:
    """The payload as the command's own dataclass."""
    try:
        return spec.payload(**payload)
    except TypeError as error:
        raise ConfigError(f"{spec.name}: {str(error).split(') ', 1)[-1]}") from None
