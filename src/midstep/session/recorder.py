"""From the controller to the facts: scalars of each step, and every intervention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.session.canonical_names import fold_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from midstep.facts import FactsWriter

__all__ = ["Recorder", "as_scalars", "earlier_commands"]

COMMANDS_RECALLED = 10_000


class Recorder:
    """The sink of a run: what the controller tells goes to the facts."""

    def __init__(self, facts: FactsWriter) -> None:
        self._facts = facts

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Scalars of one step."""
        self._facts.log_values(step, values)

    def event(self, moment: Moment, **fields: Any) -> None:
        """A record worth keeping."""
        self._facts.event(moment, **fields)


def as_scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that hold on to no graph and that later in-place changes cannot reach.

    Names are folded to canonical ones. On the CPU a tensor of one element becomes a number; on a
    device it is cloned there, without waiting for it. Anything else is passed on, and
    noted in the facts as no scalar.
    """
    return {
        name: value if type(value) is float else _own(value)
        for name, value in fold_names(values).items()
    }


def _own(value: Any) -> Any:
    if isinstance(value, int) or not hasattr(value, "detach") or value.numel() != 1:
        return value
    return value.item() if value.device.type == "cpu" else value.detach().clone()


def earlier_commands(directory: Path) -> list[dict[str, Any]]:
    """The commands that earlier attempts answered: a client may still ask for one again."""
    found = [
        event
        for event in FactsReader(directory).events()
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "command"
    ]
    return found[-COMMANDS_RECALLED:]
