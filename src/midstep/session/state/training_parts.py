"""The user's objects, as they were given to `attach`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


@dataclass(frozen=True)
class AttachedParts:
    """Let go of when the block ends."""

    model: nn.Module
    optimizers: list[Optimizer]
    """The first is the clock."""
    loader: Any
    declared: dict[str, Any]
    """scheduler, scaler and loss_fn; None where they were not given."""

    def describe(self) -> dict[str, Any]:
        """What was attached, for the header record."""
        return {
            "model": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "optimizers": [type(optimizer).__name__ for optimizer in self.optimizers],
            "batch_size": getattr(self.loader, "batch_size", None),
            "workers": getattr(self.loader, "num_workers", None),
            **{key: type(part).__name__ for key, part in self.declared.items() if part is not None},
        }

    def data_fingerprint(self) -> dict[str, Any] | None:
        """Class, length and own fingerprint of the dataset; no sample is read for it."""
        dataset = getattr(self.loader, "dataset", None)
        if dataset is None:
            return None
        return {
            "class": type(dataset).__qualname__,
            "length": _asked(dataset, "__len__"),
            "own": _asked(dataset, "fingerprint"),
        }


def _asked(dataset: Any, method: str) -> Any:
    """What a method of the dataset says; None where it has none, or that raises."""
    ask = getattr(dataset, method, None)
    try:
        return ask() if callable(ask) else None
    except Exception:  # noqa: BLE001 - somebody's own code; a record that lacks it is still one
        return None


class ExtraState:
    """The user's own objects as one part of a snapshot, each under its name.

    Args:
        parts: by name; anything with `state_dict` and `load_state_dict`.

    >>> import torch
    >>> average = torch.nn.Linear(1, 1, bias=False)
    >>> own = ExtraState({"average": average})
    >>> kept = own.state_dict()
    >>> own.names, list(kept["average"])
    (['average'], ['weight'])
    """

    def __init__(self, parts: Mapping[str, Any] | None) -> None:
        self._parts: dict[str, Stateful] = dict(parts or {})
        for name, part in self._parts.items():
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    f"extra_state={{{name!r}: …}} needs a name; use text such as 'ema'"
                )
            if isinstance(part, type) or not isinstance(part, Stateful):
                raise ConfigError(
                    f"extra_state[{name!r}] is {type(part).__name__}, which has no state_dict and "
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
        if told := extra_state_differs(sorted(state), self.names):
            raise ConfigError(told)
        self.load_known(state)

    def load_known(self, state: Mapping[str, Any]) -> None:
        """Put back the state of each that is there by its name; the others stay as they are."""
        for name, part in self._parts.items():
            if name in state:
                part.load_state_dict(state[name])


def extra_state_differs(kept: Sequence[str], given: Sequence[str]) -> str | None:
    """How the names of `extra_state` differ between a checkpoint and a session, with the remedy.

    >>> extra_state_differs(["ema"], [])
    "extra_state lacks 'ema', which the checkpoint has: give Session(extra_state={'ema': …})"
    """
    lacking, extra = sorted({*kept} - {*given}), sorted({*given} - {*kept})
    told = []
    if lacking:
        names = ", ".join(map(repr, lacking))
        remedy = ", ".join(f"{name!r}: …" for name in lacking)
        told.append(
            f"extra_state lacks {names}, which the checkpoint has: "
            f"give Session(extra_state={{{remedy}}})"
        )
    if extra:
        names = ", ".join(map(repr, extra))
        told.append(f"extra_state was given {names}, which the checkpoint has not: leave it out")
    return "; ".join(told) or None
