"""The desk: one ordered queue of verbs and commands, and the record of each.

Not thread-safe by itself: the controller calls it under its one lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.control.commands import Command, CommandRecord, CommandSpec
from midstep.control.gate import Mode
from midstep.core.errors import ConfigError

__all__ = [
    "FAILED",
    "RUNNING",
    "STEPPING",
    "VERBS",
    "Desk",
    "Nothing",
    "RunUntilPayload",
    "StepPayload",
]

REMEMBERED = 10_000
RUNNING = "The run is running; pause it first."
STEPPING = "The run still makes the steps it was asked for; wait until it stands, or pause it."
FAILED = "The run has failed; resume or stop lets it end."
MOVES = frozenset({"step", "run_until"})
VERBS = frozenset({"pause", "resume", "step", "run_until", "stop"})


@dataclass(frozen=True, kw_only=True)
class Nothing:
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


def _by_the_gate(payload: object) -> None:
    raise AssertionError(f"verbs are carried out by the gate, not called: {payload!r}")


def _verb(name: str, payload: type, help_: str) -> CommandSpec:
    return CommandSpec(name=name, payload=payload, run=_by_the_gate, help=help_)


class Desk:
    """Admits or refuses commands against the intended state, and keeps their records."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock, self._wall = clock, wall
        self._records: dict[str, CommandRecord] = {}
        self._next = 1
        self.queue: deque[CommandRecord] = deque()
        self.intended: Mode = "run"
        """What the state will be once the queue is empty."""
        self.closed: str | None = None
        """Why nothing is admitted any more: stopped, finished."""
        self.failed = False
        """Whether the training raised: there is no further step to make."""
        self.running: CommandRecord | None = None
        """The command that runs at the boundary now."""
        self.idle = False
        """Whether the loop is not on and its thread asks: as good as parked."""
        verbs = (
            _verb("pause", Nothing, "Park at the next step boundary."),
            _verb("resume", Nothing, "Go on."),
            _verb("step", StepPayload, "Let n steps pass, then park again."),
            _verb("run_until", RunUntilPayload, "Go on, park when a step is reached."),
            _verb("stop", Nothing, "End the training at the next boundary."),
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
            seq=self._next,
            submitted_at=self._wall(),
            submitted_mono=self._clock(),
            asked_step=finished,
        )
        record.future.set_running_or_notify_cancel()  # only the run itself can cancel a command
        self._next += 1
        self._records[command.id] = record
        if len(self._records) > REMEMBERED:
            self._forget_oldest()
        return record

    def recall(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Know the commands of an earlier process again; the order goes on behind them."""
        for fact in facts:
            record = CommandRecord.recalled(fact, now=self._clock())
            self._records.setdefault(record.command.id, record)
            self._next = max(self._next, record.seq + 1)

    def _forget_oldest(self) -> None:
        for key, record in self._records.items():
            if record.ended:
                del self._records[key]
                return

    def refusal(self, command: Command, finished: int) -> str | None:
        """Why `command` cannot be admitted; None when it can."""
        spec = self.registry.get(command.name)
        if spec is None:
            known = ", ".join(sorted(self.registry))
            return f"There is no command {command.name!r}; there are {known}."
        if self.closed is not None and command.name != "stop":
            return f"The run is {self.closed}."
        try:
            payload = make_payload(spec, command.payload)
        except ConfigError as error:
            return str(error)
        return self._out_of_place(command.name, spec, payload, finished)

    def _out_of_place(
        self, name: str, spec: CommandSpec, payload: object, finished: int
    ) -> str | None:
        if self.failed and (name in MOVES or spec.moves):
            return FAILED
        if self.running is not None and (name in ("resume", "step", "run_until") or spec.moves):
            busy = self.running.command
            return f"The run is busy with {busy.name} ({busy.id}); wait for it or cancel it."
        needs_park = spec.parked_only and not self.idle
        if (name == "step" or needs_park) and self.intended == "run":
            return RUNNING
        if isinstance(payload, RunUntilPayload) and payload.step <= finished:
            return f"Already past step {payload.step:,}; the run is at step {finished:,}."
        return None

    def admit(self, record: CommandRecord) -> None:
        """Put an admitted command at the end of the queue."""
        self.queue.append(record)
        self._intend(record)

    def _intend(self, record: CommandRecord) -> None:
        if record.command.name == "pause":
            self.intended = "pause"
        elif record.command.name in ("resume", "run_until"):
            self.intended = "run"

    def withdraw(self, record: CommandRecord, mode: Mode) -> None:
        """Take a waiting command out; what is intended follows from `mode` and the others."""
        self.queue.remove(record)
        self.intended = mode
        for waiting in self.queue:
            self._intend(waiting)

    def gate_closed(self) -> None:
        """The gate closed by itself (a breakpoint, a step reached): no wish of anybody's."""
        modes = {"pause", "resume", "run_until"}
        if not any(record.command.name in modes for record in self.queue):
            self.intended = "pause"

    def fail(self) -> list[CommandRecord]:
        """The training raised: nothing can move it; gives back what waited for that."""
        self.failed, self.intended = True, "pause"
        moves = [record for record in self.queue if self._is_move(record)]
        for record in moves:
            self.queue.remove(record)
        return moves

    def _is_move(self, record: CommandRecord) -> bool:
        name = record.command.name
        return name in MOVES or (name in self.registry and self.registry[name].moves)

    def close(self, reason: str) -> list[CommandRecord]:
        """Admit nothing any more; gives back what was still waiting."""
        self.closed = reason
        waiting = list(self.queue)
        self.queue.clear()
        return waiting


def make_payload(spec: CommandSpec, payload: Mapping[str, Any]) -> object:
    """The payload as the command's own dataclass."""
    try:
        return spec.payload(**payload)
    except TypeError as error:
        raise ConfigError(f"{spec.name}: {str(error).split(') ', 1)[-1]}") from None
