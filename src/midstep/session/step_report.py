"""From the controller to the facts: scalars of each step, and every intervention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.moments import Moment
from midstep.facts import FactsReader

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.facts import FactsWriter


CANONICAL: Mapping[str, str] = {
    "acc": "accuracy",
    "top1": "accuracy",
    "val_acc": "val_accuracy",
    "val_top1": "val_accuracy",
    "test_acc": "test_accuracy",
    "test_top1": "test_accuracy",
    "learning_rate": "lr",
    "gradient_norm": "grad_norm",
    "tokens_per_sec": "throughput",
}
"""Names that loops use, and the one that they are kept under."""


def canonical_name(name: str) -> str:
    """The name under which a scalar is kept.

    >>> canonical_name("learning_rate"), canonical_name("loss")
    ('lr', 'loss')
    """
    return CANONICAL.get(name, name)


def fold_names(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`values` under canonical names; one that is given under its canonical name stays.

    >>> fold_names({"acc": 0.5, "loss": 1.0})
    {'accuracy': 0.5, 'loss': 1.0}
    """
    if CANONICAL.keys().isdisjoint(values):
        return values
    return {CANONICAL.get(name, name): value for name, value in values.items()} | {
        name: value for name, value in values.items() if name not in CANONICAL
    }


COMMANDS_RECALLED = 10_000


class Recorder:
    """The sink of a run: what the controller tells goes to the facts."""

    def __init__(self, facts: FactsWriter) -> None:
        self._facts = facts

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
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
