"""The objects that the user trains, as given to `attach` or to `Session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful
from midstep.session.late_parameters import is_uninitialized

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

UserStep = Callable[[Any, Any], Any]
"""A step of the user: called with the model and a batch on its device; returns the loss, or a
mapping with `loss` and further scalars."""


class ExtraState:
    """The user's own stateful objects as one part of a snapshot, each under its name.

    Args:
        parts: by name; anything with `state_dict` and `load_state_dict`.

    >>> import torch
    >>> average = torch.nn.Linear(1, 1, bias=False)
    >>> extra = ExtraState({"average": average})
    >>> extra.names, list(extra.state_dict()["average"])
    (['average'], ['weight'])
    """

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        self._parts: dict[str, Stateful] = dict(parts or {})
        for name, part in self._parts.items():
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    f"extra_state={{{name!r}: …}} needs a name; use text such as 'ema'"
                )
            if isinstance(part, type) or not isinstance(part, Stateful):
                raise ConfigError(
                    f"extra_state[{name!r}] is a {type(part).__name__} without state_dict and "
                    "load_state_dict, so it cannot be saved; give it these two methods"
                )

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def parts(self) -> list[Any]:
        """The objects themselves."""
        return list(self._parts.values())

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._parts)

    def state_dict(self) -> dict[str, Any]:
        """The state of each object."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore each object; the names must be the same as in `state`."""
        if problem := extra_state_differs(sorted(state), self.names):
            raise ConfigError(problem)
        self.load_known(state)

    def load_known(self, state: Mapping[str, Any]) -> None:
        """Restore the objects whose names are in `state`; leave the others unchanged."""
        for name, part in self._parts.items():
            if name in state:
                part.load_state_dict(state[name])


def extra_state_differs(saved: Sequence[str], given: Sequence[str]) -> str | None:
    """How the names of `extra_state` differ between a checkpoint and a session; None if equal.

    >>> extra_state_differs(["ema"], [])
    "extra_state lacks 'ema', which the checkpoint has: give extra_state={'ema': …}"
    """
    missing, added = sorted({*saved} - {*given}), sorted({*given} - {*saved})
    problems = []
    if missing:
        names = ", ".join(map(repr, missing))
        remedy = ", ".join(f"{name!r}: …" for name in missing)
        problems.append(
            f"extra_state lacks {names}, which the checkpoint has: give extra_state={{{remedy}}}"
        )
    if added:
        names = ", ".join(map(repr, added))
        problems.append(f"extra_state has {names}, which the checkpoint lacks: leave it out")
    return "; ".join(problems) or None


def stateful_loss(loss_fn: Any) -> Stateful | None:
    """A loss that has parameters or buffers, which belong to the training; None for another.

    >>> import torch
    >>> stateful_loss(torch.nn.MSELoss()) is None, stateful_loss(torch.nn.Linear(1, 1)) is None
    (True, False)
    """
    is_module = hasattr(loss_fn, "named_parameters") and isinstance(loss_fn, Stateful)
    return loss_fn if is_module and loss_fn.state_dict() else None


@dataclass(kw_only=True)
class TrainingParts:
    """What the user gave to be trained."""

    model: nn.Module
    optimizers: Sequence[Optimizer]
    """All optimizers; a step of the first one counts as a step of the training."""
    train_loader: Any
    loss_fn: Callable[..., Any] | None = None
    val_loader: Any = None
    test_loader: Any = None
    scheduler: Any = None
    scaler: Any = None
    extra_state: ExtraState = field(default_factory=ExtraState)
    """Further state that belongs to the training, such as an average of the weights."""
    training_step: UserStep | None = None
    validation_step: UserStep | None = None
    after_step: list[Callable[[nn.Module], object]] = field(default_factory=list)
    """Called after each step that changed the weights, repeated steps included."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer whose steps are counted."""
        return self.optimizers[0]

    @property
    def optimizer_names(self) -> Sequence[str]:
        """The names of the optimizers, in their order: in commands, and in the series `lr.NAME`."""
        return [str(index) for index in range(len(self.optimizers))]

    def release(self) -> None:
        """Drop the loaders and the user's functions once the training is over.

        Workers of a loader end when the last reference to it goes, and a training is part of
        reference cycles, which only the garbage collector would break.
        """
        self.train_loader = self.val_loader = self.test_loader = None
        self.training_step = self.validation_step = None
        self.after_step.clear()

    def describe(self) -> dict[str, Any]:
        """Classes and sizes, for the header record of the run."""
        declared = {"scheduler": self.scheduler, "scaler": self.scaler, "loss_fn": self.loss_fn}
        return {
            "model": type(self.model).__name__,
            "parameters": sum(
                weight.numel() for weight in self.model.parameters() if not is_uninitialized(weight)
            ),
            "batch_size": getattr(self.train_loader, "batch_size", None),
            "workers": getattr(self.train_loader, "num_workers", None),
            **{name: type(part).__name__ for name, part in declared.items() if part is not None},
        }

    def describe_dataset(self) -> dict[str, Any] | None:
        """Class, length and own fingerprint of the dataset; reads no sample."""
        dataset = getattr(self.train_loader, "dataset", None)
        if dataset is None:
            return None
        return {
            "class": type(dataset).__qualname__,
            "length": _call_if_present(dataset, "__len__"),
            "own": _call_if_present(dataset, "fingerprint"),
        }


def _call_if_present(dataset: Any, method: str) -> Any:
    """What a method of the dataset returns; None if there is none or it raises."""
    call = getattr(dataset, method, None)
    try:
        return call() if callable(call) else None
    except Exception:  # noqa: BLE001 - the user's code; the header is useful without this field
        return None
