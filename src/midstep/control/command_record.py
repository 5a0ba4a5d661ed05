"""Commands: what outsiders may ask of the training thread, and the record of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from midstep.core.errors import ControlError
from midstep.core.ids import new_command_id

Status = Literal["pending", "running", "done", "failed", "refused"]
Who = Literal["page", "cli", "terminal", "python", "breakpoint", "system"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A wish, to be submitted.

    >>> Command(name="step", payload={"n": 3}).name
    'step'
    """

    name: str
    """Name in the registry, for example `pause`."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the command's payload dataclass."""
    who: Who = "python"
    """Who asks; it stands in the command log and in the facts."""
    id: str = field(default_factory=new_command_id)
    """Repeat it on a retry: a repeated id is answered, not repeated."""


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """An entry of the registry."""

    name: str
    """What callers type."""
    payload: type
    """Frozen dataclass of the payload; it checks itself in `__post_init__`."""
    run: Callable[..., Any]
    """Called on the training thread with the payload. A generator yields its progress (0 to 1)."""
    help: str
    """One line for `--help` and the palette."""
    parked_only: bool = False
    """Whether it needs a parked run."""
    moves: bool = False
    """Whether it moves the training itself, as steps do: not while others run or steps are left."""


@dataclass(frozen=True)
class StepsToPass:
    """What a command gives that is only done once the parked loop has gone on for some steps."""

    n: int
    """Steps that pass before the loop stands again, and the command is answered."""


@dataclass(kw_only=True)
class CommandRecord:
    """What became of a command. Written by the training thread, read by anybody."""

    command: Command
    seq: int
    """Place in the one total order of verbs and commands."""
    submitted_at: float
    """Wall time, seconds since 1970."""
    submitted_mono: float
    """Monotonic time; durations come from it."""
    asked_step: int
    """Finished steps when it was asked."""
    future: Future[Any] = field(default_factory=Future)
    status: Status = "pending"
    reason: str | None = None
    result: Any = None
    step: int | None = None
    """Finished steps when it took effect."""
    duration_s: float | None = None
    progress: float | None = None
    cancelled: bool = False

    @classmethod
    def from_fact(cls, fact: Mapping[str, Any], *, now: float) -> CommandRecord:
        """The record of a command that ended in an earlier process, from what `describe` gave."""
        command = Command(
            name=fact["command"], payload=fact["payload"], who=fact["who"], id=fact["id"]
        )
        made = cls(
            command=command,
            seq=fact["command_seq"],
            submitted_at=fact["wall"] - (fact["duration_s"] or 0.0),
            submitted_mono=now,
            asked_step=fact["asked_step"],
            status=fact["status"],
            reason=fact["reason"],
            step=fact["step"],
            duration_s=fact["duration_s"],
        )
        if made.status == "done":
            made.future.set_result(None)
        else:
            made.future.set_exception(ControlError(made.reason or made.status))
        return made

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or refused."""
        return self.status in ("done", "failed", "refused")

    def describe(self) -> dict[str, Any]:
        """As it stands in the facts."""
        return {
            "id": self.command.id,
            "command": self.command.name,
            "payload": dict(self.command.payload),
            "who": self.command.who,
            "status": self.status,
            "reason": self.reason,
            "command_seq": self.seq,
            "asked_step": self.asked_step,
            "step": self.step,
            "duration_s": self.duration_s,
        }
