"""What else of the user's own moves with the training: averages of weights, counters, learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midstep.core.errors import ConfigError
from midstep.core.stateful import Stateful

__all__ = ["OwnParts", "also_differs"]


class OwnParts:
    """The user's own objects as one part of a snapshot, each under its name.

    Args:
        parts: by name; anything with `state_dict` and `load_state_dict`.

    >>> import torch
    >>> average = torch.nn.Linear(1, 1, bias=False)
    >>> own = OwnParts({"average": average})
    >>> kept = own.state_dict()
    >>> own.names, list(kept["average"])
    (['average'], ['weight'])
    """

    def __init__(self, parts: Mapping[str, Any] | None) -> None:
        self._parts: dict[str, Stateful] = dict(parts or {})
        for name, part in self._parts.items():
            if not isinstance(name, str) or not name:
                raise ConfigError(f"also={{{name!r}: …}} needs a name; use text such as 'ema'")
            if isinstance(part, type) or not isinstance(part, Stateful):
                raise ConfigError(
                    f"also[{name!r}] is {type(part).__name__}, which has no state_dict and "
                    "load_state_dict to be kept with; write these two methods for it"
                )

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def names(self) -> list[str]:
        """Sorted: their order means nothing."""
        return sorted(self._parts)

    def state_dict(self) -> dict[str, Any]:
        """The state of each."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back the state of each; refused unless the names are the same."""
        if told := also_differs(sorted(state), self.names):
            raise ConfigError(told)
        self.load_known(state)

    def load_known(self, state: Mapping[str, Any]) -> None:
        """Put back the state of each that is there by its name; the others stay as they are."""
        for name, part in self._parts.items():
            if name in state:
                part.load_state_dict(state[name])


def also_differs(kept: Sequence[str], given: Sequence[str]) -> str | None:
    """What a checkpoint has under `also` and the session has not, or the reverse; with the remedy.

    >>> also_differs(["ema"], [])
    "also was given without 'ema', which the checkpoint has: give Session(also={'ema': …})"
    """
    lacking, extra = sorted({*kept} - {*given}), sorted({*given} - {*kept})
    told = []
    if lacking:
        names = ", ".join(map(repr, lacking))
        remedy = ", ".join(f"{name!r}: …" for name in lacking)
        told.append(
            f"also was given without {names}, which the checkpoint has: "
            f"give Session(also={{{remedy}}})"
        )
    if extra:
        names = ", ".join(map(repr, extra))
        told.append(f"also was given {names}, which the checkpoint has not: leave it out")
    return "; ".join(told) or None
