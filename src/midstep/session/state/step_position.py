"""`StepPosition` and `KeptVariables`: what a loop over `run.steps` adds to a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from midstep.core.errors import ConfigError
from midstep.session.state.shared_storage import clone_tree
from midstep.session.state.state_tree import walk


@dataclass
class StepPosition:
    """Where a loop over `run.steps` is. It is part of a snapshot once such a loop has begun.

    >>> bool(StepPosition()), bool(StepPosition(loop=1))
    (False, True)
    """

    loop: int = 0
    """Which call of `run.steps` runs, counted from 1 in the process or in its epoch; 0 for none."""
    index: int = 0
    """The index that is yielded next; while an iteration runs, its own."""

    def __bool__(self) -> bool:
        return self.loop > 0

    def state_dict(self) -> dict[str, Any]:
        """Both fields."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore both fields."""
        self.loop, self.index = state["loop"], state["index"]


class KeptVariables:
    """The loop's own variables that move with the state: those of `run.keep`.

    >>> kept = KeptVariables()
    >>> k = kept.add({"best": 1.0})
    >>> saved = kept.state_dict()
    >>> k.best = 0.5
    >>> kept.load_state_dict(saved)
    >>> k.best
    1.0
    """

    def __init__(self) -> None:
        self.namespace = SimpleNamespace()
        self._resumed: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(vars(self.namespace))

    def add(self, variables: Mapping[str, Any]) -> SimpleNamespace:
        """Keep these, too; returns the namespace of all. A resumed one has its saved value.

        Raises:
            ConfigError: a value cannot be saved, or there is none.
        """
        if not variables:
            raise ConfigError("run.keep needs variables: k = run.keep(obs=obs, best=float('inf'))")
        walk({"keep": dict(variables)})
        for name, value in variables.items():
            setattr(self.namespace, name, self._resumed.pop(name, value))
        return self.namespace

    def resume(self, saved: Mapping[str, Any]) -> None:
        """The values of a checkpoint, for variables that the script does not keep yet."""
        self._resumed = dict(clone_tree(dict(saved)))

    def state_dict(self) -> dict[str, Any]:
        """The present values by name."""
        return dict(vars(self.namespace))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the values; names that the state lacks stay as they are."""
        vars(self.namespace).update(state)
