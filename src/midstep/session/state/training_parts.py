"""The objects that the user trains, as given to `attach` or to `Session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful
from midstep.session.late_parameters import is_uninitialized
from midstep.session.state.extra_state import ExtraState

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

UserStep = Callable[[Any, Any], Any]
"""A step of the user: called with the model and a batch on its device; returns the loss, or a
mapping with `loss` and further scalars."""


def as_model(given: Any) -> nn.Module:
    """One module for what the user gave: a module, or several in a dict or list.

    Several become the submodules of a container, so that a parameter of `{"D": net}` is called
    `D.…`, and `model.D.…` in a snapshot. The modules themselves stay as they are.

    >>> import torch
    >>> list(as_model({"G": torch.nn.Linear(1, 1, bias=False)}).state_dict())
    ['G.weight']
    """
    from torch import nn

    if not isinstance(given, Mapping | list | tuple):
        return given  # type: ignore[no-any-return]
    named = _named_parts("model", given, nn.Module, "a torch module")
    if isinstance(given, Mapping):
        try:
            return nn.ModuleDict(named)
        except KeyError as error:  # the container has a method of that name, such as `train`
            raise ConfigError(f"model={{…}} cannot use that name: {error.args[0]}") from None
    return nn.ModuleList(named.values())


def as_optimizers(given: Any) -> tuple[list[Optimizer], list[str] | None]:
    """The optimizers that the user gave, and their names if they were in a dict."""
    from torch.optim import Optimizer

    several = given if isinstance(given, Mapping | list | tuple) else [given]
    named = _named_parts("optimizer", several, Optimizer, "a torch optimizer")
    return list(named.values()), list(named) if isinstance(given, Mapping) else None


def _named_parts(what: str, given: Any, kind: type, words: str) -> dict[str, Any]:
    """Several parts by name, or by position; refused if one is of another kind."""
    named = dict(given) if isinstance(given, Mapping) else dict(enumerate(given))
    wrong = [type(each).__name__ for each in named.values() if not isinstance(each, kind)]
    if wrong or not named:
        got = wrong[0] if wrong else f"an empty {type(given).__name__}"
        raise ConfigError(f"{what} must be {words}, or a dict or list of them, got {got}")
    for name in named:
        if isinstance(given, Mapping) and (
            not isinstance(name, str) or not name or not set(name).isdisjoint(". /")
        ):
            raise ConfigError(f"{what}={{{name!r}: …}}: use a name without dots, such as 'D'")
    return {str(name): each for name, each in named.items()}


def _class_names(model: nn.Module) -> str:
    """The class of a model; of a container that `as_model` made, those of its modules."""
    from torch import nn

    if type(model) is nn.ModuleDict:
        return ", ".join(f"{type(each).__name__} ({name})" for name, each in model.items())
    if type(model) is nn.ModuleList:
        return ", ".join(type(each).__name__ for each in model)
    return type(model).__name__


def clock_state(states: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the optimizer whose steps are counted, in the states of a snapshot.

    >>> clock_state({"model": {}, "optimizer.G": {"state": 1}, "optimizer.D": {"state": 2}})
    {'state': 1}
    """
    names = (name for name in states if name == "optimizer" or name.startswith("optimizer."))
    return states.get(next(names, ""), {})  # type: ignore[no-any-return]


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
    names_in_dict: Sequence[str] | None = None
    """The names of the optimizers, if they were given in a dict."""
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
    after_epoch: list[Callable[[nn.Module], object]] = field(default_factory=list)
    """Called after each epoch and its validation, repeated epochs included."""

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer whose steps are counted."""
        return self.optimizers[0]

    @property
    def optimizer_keys(self) -> list[str]:
        """The name of each one's state in a snapshot, such as `optimizer` or `optimizer.D`."""
        if self.names_in_dict is not None:
            return [f"optimizer.{name}" for name in self.names_in_dict]
        return ["optimizer", *(f"optimizer.{i}" for i in range(1, len(self.optimizers)))]

    @property
    def optimizer_names(self) -> Sequence[str]:
        """The names of the optimizers, in their order: in commands, and in the series `lr.NAME`."""
        return self.names_in_dict or [str(index) for index in range(len(self.optimizers))]

    def release(self) -> None:
        """Drop the loaders and the user's functions once the training is over.

        Workers of a loader end when the last reference to it goes, and a training is part of
        reference cycles, which only the garbage collector would break.
        """
        self.train_loader = self.val_loader = self.test_loader = None
        self.training_step = self.validation_step = None
        self.after_step.clear()
        self.after_epoch.clear()

    def describe_rate(self) -> dict[str, float]:
        """The learning rate of the first optimizer for the status; nothing if it has no number."""
        rate = self.optimizer.param_groups[0].get("lr")
        return {"lr": rate} if isinstance(rate, float) else {}

    def describe(self) -> dict[str, Any]:
        """Classes and sizes, for the header record of the run."""
        declared = {"scheduler": self.scheduler, "scaler": self.scaler, "loss_fn": self.loss_fn}
        return {
            "model": _class_names(self.model),
            "parameters": sum(
                weight.numel() for weight in self.model.parameters() if not is_uninitialized(weight)
            ),
            "batch_size": getattr(self.train_loader, "batch_size", None),
            "workers": getattr(self.train_loader, "num_workers", None),
            **{name: type(part).__name__ for name, part in declared.items() if part is not None},
        }

    def describe_optimizers(self) -> list[str]:
        """The class of each optimizer, with its name in a dict, such as `Adam (D)`."""
        classes = [type(each).__name__ for each in self.optimizers]
        if self.names_in_dict is None:
            return classes
        return [f"{kind} ({name})" for kind, name in zip(classes, self.names_in_dict, strict=True)]

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
