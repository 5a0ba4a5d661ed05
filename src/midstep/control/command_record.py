"""`Command`, a request to the training thread, and `CommandRecord`, what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from midstep.core.errors import ControlError, FormatError
from midstep.core.ids import new_command_id

Status = Literal["pending", "running", "done", "failed", "refused"]
Who = Literal["page", "cli", "terminal", "python", "breakpoint", "system"]
_FIELDS: Mapping[Any, tuple[str, ...]] = {
    str: ("command", "who", "id", "status"),
    int: ("command_seq", "asked_step"),
    Mapping: ("payload",),
    int | float: ("wall",),
    int | float | None: ("duration_s",),
    int | None: ("step",),
    str | None: ("reason",),
}
"""The fields of a fact, by their types."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A request to the training thread, submitted to the command queue.

    >>> Command(name="step", payload={"n": 3}).name
    'step'
    """

    name: str
    """Name of a registered command, for example `pause`."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the command's payload, as the caller gave them."""
    who: Who = "python"
    """Who requests it; recorded in the command log and in the facts."""
    id: str = field(default_factory=new_command_id)
    """A retry repeats it: a command with a known id is answered, but not run again."""


@dataclass(frozen=True)
class StepsToPass:
    """Returned by a handler whose command ends only after the paused loop has run some steps."""

    n: int
    """Steps to run before the loop pauses again and the command is answered."""
    answer: Callable[[], Mapping[str, Any]] = dict
    """Called then, for further fields of the answer."""


@dataclass(kw_only=True)
class CommandRecord:
    """What became of a command. Written by the training thread, read by any thread."""

    command: Command
    seq: int
    """Position in the order of all commands of the run."""
    submitted_at: float
    """Wall time, seconds since 1970."""
    submitted_mono: float
    """Monotonic time; durations come from it."""
    asked_step: int
    """Finished steps when it was submitted."""
    payload: Any = None
    """The parsed payload; None for a refused command or one of an earlier process."""
    future: Future[Any] = field(default_factory=Future)
    status: Status = "pending"
    reason: str | None = None
    result: Any = None
    step: int | None = None
    """Finished steps when it took effect."""
    duration_s: float | None = None
    progress: float | None = None
    cancelled: bool = False
    answer: Callable[[], Mapping[str, Any]] = dict
    """Gives further fields of the result of a command that ends after some steps."""

    @classmethod
    def from_fact(cls, fact: Mapping[str, Any], *, now: float) -> CommandRecord:
        """Return the record of a command that ended in an earlier process, from its fact.

        Raises:
            FormatError: a field is missing or of another type; the facts may be a stranger's.
        """
        for kind, names in _FIELDS.items():
            for name in names:
                if name not in fact or not isinstance(fact[name], kind):
                    raise FormatError(f"the fact of a command has no usable field {name!r}")
        command = Command(
            name=fact["command"], payload=fact["payload"], who=fact["who"], id=fact["id"]
        )
        record = cls(
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
        if record.status == "done":
            record.future.set_result(None)
        else:
            record.future.set_exception(ControlError(record.reason or record.status))
        return record

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or refused."""
        return self.status in ("done", "failed", "refused")

    def describe(self) -> dict[str, Any]:
        """Return the fields that are written to the facts."""
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
