"""Tensors that an optimizer trains and that no declared part of the training holds."""

from __future__ import annotations

import functools
import logging
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.swa_utils import AveragedModel

from midstep.core.errors import FormatError
from midstep.core.fault_guard import FaultGuard
from midstep.core.protocols import Stateful
from midstep.session.late_parameters import is_uninitialized
from midstep.session.state.weights_checksum import PendingChecksum, sample_checksum

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from midstep.session.state.training_parts import TrainingParts

log = logging.getLogger("midstep.session")


class UntrackedTensors:
    """These tensors as one part of a snapshot, each under its position in its optimizer.

    Args:
        parts: what the user declared.

    >>> from midstep.session.state.training_parts import TrainingParts
    >>> model, scale = nn.Linear(2, 1), torch.ones(1, requires_grad=True)
    >>> optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
    >>> parts = TrainingParts(model=model, optimizers=[optimizer], train_loader=None)
    >>> list(UntrackedTensors(parts).state_dict())
    ['optimizer.0.0.2']
    """

    def __init__(self, parts: TrainingParts) -> None:
        self._parts = parts

    def __bool__(self) -> bool:
        return next(self._tensors(), None) is not None

    def words(self) -> Iterator[str]:
        """One sentence for each optimizer that has such tensors."""
        for index, label in enumerate(self._parts.optimizer_names):
            count = sum(1 for name, _ in self._tensors() if name.startswith(f"optimizer.{label}."))
            if count:
                are = "tensors of optimizer {} are" if count > 1 else "tensor of optimizer {} is"
                their = "their weights are" if count > 1 else "its values are"
                named = are.format(self._words(index))
                yield (
                    f"{count} {named} not in `model`; {their} saved, buffers of "
                    f"{'their' if count > 1 else 'its'} module are not"
                )

    def _words(self, index: int) -> str | int:
        names = self._parts.names_in_dict
        return index + 1 if names is None else names[index]

    def state_dict(self) -> dict[str, Any]:
        """The tensors by optimizer, group and position."""
        return {name: tensor.detach() for name, tensor in self._tensors()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Write the saved values into the tensors."""
        present = dict(self._tensors())
        if present.keys() != state.keys():
            odd = ", ".join(sorted(present.keys() ^ state.keys()))
            raise FormatError(f"the optimizer has other tensors than the checkpoint: {odd}")
        with torch.no_grad():
            for name, tensor in present.items():
                tensor.copy_(state[name])

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        held = {id(each) for each in _held(self._parts)}
        labels = self._parts.optimizer_names
        for label, optimizer in zip(labels, self._parts.optimizers, strict=True):
            for number, group in enumerate(optimizer.param_groups):
                for position, tensor in enumerate(group["params"]):
                    if id(tensor) not in held:
                        held.add(id(tensor))
                        yield f"optimizer.{label}.{number}.{position}", tensor


def _held(parts: TrainingParts) -> Iterator[torch.Tensor]:
    """Tensors of the parts whose state is saved."""
    for part in [parts.model, parts.loss_fn, *parts.extra_state.parts]:
        if isinstance(part, nn.Module):
            yield from part.parameters()
            yield from part.buffers()
        elif isinstance(part, torch.Tensor):
            yield part


# -- modules that no declared part holds ----------------------------------------------------------


class OtherModules:
    """Modules that the user's code refers to and no declared part holds.

    One that changes while the training runs, such as an average of the weights, is lost at a
    resume. A frozen one is not, so a checksum of some elements tells the two apart.

    Args:
        parts: what the user declared.
    """

    def __init__(self, parts: TrainingParts) -> None:
        self._parts = parts
        self.watched: dict[str, tuple[weakref.ref[nn.Module], _Content]] = {}
        """By path; a dictionary, so that a step without any costs one flag test."""
        self._guard = FaultGuard("watching modules that were not given", log)
        self.are_new = False
        """Whether none of them was compared since it was watched."""

    def watch(self, modules: Mapping[str, nn.Module]) -> list[str]:
        """Watch these and the earlier ones from now on; returns what is sure to change, in words.

        Args:
            modules: by the path to each in the user's code.
        """
        return self._guard.run(self._watch, modules) or []

    def _watch(self, modules: Mapping[str, nn.Module]) -> list[str]:
        earlier = {path: module() for path, (module, _) in self.watched.items()}
        held = _held_addresses(self._parts) if modules or earlier else set()
        averages, self.watched = [], {}
        for path, module in {**earlier, **modules}.items():
            content = None if module is None else _Content.read(module, held)
            if module is None or content is None:
                continue
            if isinstance(module, AveragedModel):
                averages.append(
                    f"{path} is an AveragedModel that was not given, and it is in no state; give "
                    "it with extra_state="
                )
            else:
                self.watched[path] = (weakref.ref(module), content)
        self.are_new = True
        return averages

    def moved(self) -> list[str]:
        """Those that have changed since they were watched, each once, in words."""
        self.are_new = False
        return self._guard.run(self._moved) or []

    def _moved(self) -> list[str]:
        held, words = _held_addresses(self._parts), []
        for path, (reference, before) in [*self.watched.items()]:
            module = reference()
            now = None if module is None else _Content.read(module, held)
            if module is None or now is None or now.tensors != before.tensors:
                del self.watched[path]
            elif now.value != before.value:
                del self.watched[path]
                words.append(
                    f"{path} is a {type(module).__name__} that no declared part holds, and it has "
                    "changed; give it with model={…} or extra_state=, else a resume resets it"
                )
        return words


@dataclass(frozen=True)
class _Content:
    """What a module holds besides the declared parts."""

    tensors: int
    checksum: int | PendingChecksum

    @classmethod
    def read(cls, module: nn.Module, held: set[int]) -> _Content | None:
        tensors = [*module.parameters()]
        for each in module.modules():
            # Running statistics have no effect in training mode, where they change.
            if not (isinstance(each, _NormBase) and each.training):
                tensors += each.buffers(recurse=False)  # type: ignore[arg-type]
        own = [
            each
            for each in tensors
            if not is_uninitialized(each) and each.numel() and each.data_ptr() not in held
        ]
        checksum = sample_checksum(own)
        return None if checksum is None else cls(len(own), checksum)

    @property
    def value(self) -> int:
        return self.checksum if isinstance(self.checksum, int) else self.checksum.value


def _held_addresses(parts: TrainingParts) -> set[int]:
    """Where the tensors are that a snapshot saves, also those inside of the extra state."""
    from midstep.session.state.generators import GeneratorSearch

    tensors = [*_held(parts)]
    for optimizer in parts.optimizers:
        tensors += [each for group in optimizer.param_groups for each in group["params"]]
    search = GeneratorSearch()
    for name, part in enumerate(parts.extra_state.parts):
        search.look_at(str(name), part)
    for module in search.modules.values():
        tensors += [*module.parameters(), *module.buffers()]
    return {each.data_ptr() for each in tensors if not is_uninitialized(each)}


# -- memory of an optimizer outside of its state --------------------------------------------------

_PLAIN = (bool, int, float, str, type(None))


class OptimizerAttributes:
    """What optimizers of the user's own keep in attributes, and not in their `state`.

    Optimizers of torch keep everything in their state; their attributes are not looked at.

    Args:
        optimizers: only their own attributes, not those of `torch.optim.Optimizer`.
        labels: the name of each in a state.
    """

    def __init__(self, optimizers: Sequence[Optimizer], labels: Sequence[str]) -> None:
        self._each = [AttributesOf(each) for each in optimizers]
        self._labels = labels

    def __bool__(self) -> bool:
        return any(each.state_dict() for each in self._each)

    @property
    def unsaved(self) -> list[str]:
        """Attributes that hold tensors in a form that cannot be saved: `MyOptimizer.buffers`."""
        return [name for each in self._each for name in each.unsaved]

    def state_dict(self) -> dict[str, Any]:
        """The attributes of each optimizer, by its name or position."""
        named = zip(self._labels, self._each, strict=True)
        return {label: each.state_dict() for label, each in named}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes that the state has."""
        for label, each in zip(self._labels, self._each, strict=True):
            each.load_state_dict(state.get(label, {}))


class AttributesOf:
    """The attributes of one optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    @property
    def unsaved(self) -> list[str]:
        """Names of those that hold tensors in a form that cannot be saved."""
        return [
            f"{type(self._optimizer).__name__}.{name}"
            for name, value in self._own()
            if not isinstance(value, Stateful) and not self._can_save(value) and _has_tensor(value)
        ]

    def state_dict(self) -> dict[str, Any]:
        """The attributes by name; those of an object with a state of its own by that state."""
        state: dict[str, Any] = {}
        for name, value in self._own():
            if isinstance(value, Stateful) and not isinstance(value, type):
                state[name] = {"state": value.state_dict()}
            elif self._can_save(value):
                state[name] = {"value": self._saved(value)}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes that the state has."""
        for name, saved in state.items():
            present = vars(self._optimizer).get(name)
            if "state" in saved:
                if isinstance(present, Stateful):
                    present.load_state_dict(saved["state"])
                continue
            value = self._loaded(saved["value"])
            if isinstance(present, dict) and isinstance(value, dict):
                present.clear()  # in place: other code of the optimizer may hold it
                present.update(value)
            elif isinstance(present, list | deque) and isinstance(value, list):
                present.clear()
                present.extend(value)
            else:
                setattr(self._optimizer, name, value)

    def _own(self) -> Iterator[tuple[str, Any]]:
        if type(self._optimizer).__module__.startswith("torch."):
            return
        base = _base_names()
        for name, value in sorted(vars(self._optimizer).items()):
            if name not in base and not name.startswith("_optimizer_"):
                yield name, value

    def _parameters(self) -> list[torch.Tensor]:
        return [each for group in self._optimizer.param_groups for each in group["params"]]

    def _can_save(self, value: Any) -> bool:
        if isinstance(value, (*_PLAIN, torch.Tensor)):
            return True
        if isinstance(value, Mapping):
            keys = all(isinstance(key, _PLAIN) or self._index(key) is not None for key in value)
            return keys and all(map(self._can_save, value.values()))
        return isinstance(value, list | tuple | deque) and all(map(self._can_save, value))

    def _index(self, value: Any) -> int | None:
        matches = (i for i, each in enumerate(self._parameters()) if each is value)
        return next(matches, None) if isinstance(value, torch.Tensor) else None

    def _saved(self, value: Any) -> Any:
        """The value with parameters of the optimizer replaced by their position."""
        if (index := self._index(value)) is not None:
            return {"kind": "parameter", "index": index}
        if isinstance(value, Mapping):
            entries = [[self._saved(key), self._saved(each)] for key, each in value.items()]
            return {"kind": "mapping", "entries": entries}
        if isinstance(value, list | tuple | deque):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {"kind": kind, "entries": [self._saved(each) for each in value]}
        return {"kind": "plain", "value": value}

    def _loaded(self, saved: Mapping[str, Any]) -> Any:
        kind = saved["kind"]
        if kind == "parameter":
            return self._parameters()[saved["index"]]
        if kind == "mapping":
            return {self._loaded(key): self._loaded(each) for key, each in saved["entries"]}
        if kind == "plain":
            value = saved["value"]
            return value.clone() if isinstance(value, torch.Tensor) else value
        entries = [self._loaded(each) for each in saved["entries"]]
        return tuple(entries) if kind == "tuple" else entries


@cache
def _base_names() -> frozenset[str]:
    """Attributes that every optimizer of torch has, and those that schedulers and scalers add."""
    plain = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    added = {"step", "_opt_called", "_step_count", "_step_supports_amp_scaling"}
    return frozenset(vars(plain)) | added


# -- numbers that a loss counts with --------------------------------------------------------------

MOST_NUMBERS = 256
"""Numbers of one loss that are saved at most."""


class LossAttributes:
    """Numbers in attributes of a loss of the user's own, such as a counter that anneals a weight.

    Only those that have changed since the start are saved: the others are settings, and belong to
    the script.

    Args:
        loss_fn: a module with its submodules, or a callable object; functions have none.

    >>> class Annealed:
    ...     def __init__(self):
    ...         self.calls, self.scale = 0, 0.5
    ...     def __call__(self, output, target):
    ...         self.calls += 1
    >>> loss_fn = Annealed()
    >>> attributes = LossAttributes(loss_fn)
    >>> loss_fn(1, 2)
    >>> attributes.state_dict()
    {'calls': 1}
    """

    def __init__(self, loss_fn: Any) -> None:
        named = loss_fn.named_modules() if isinstance(loss_fn, nn.Module) else [("", loss_fn)]
        self._owners = {
            f"{name}." if name else "": each for name, each in named if _may_count(each)
        }
        self._first_vars = {prefix: dict(vars(each)) for prefix, each in self._owners.items()}
        self._first = self._numbers()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def state_dict(self) -> dict[str, Any]:
        """The numbers that have changed, by their path."""
        numbers = self._numbers().items()
        return {
            path: each for path, each in numbers if not _same_number(each, self._first.get(path))
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the numbers of the state; the others are again as they were at the start."""
        for path in {**self._numbers(), **state}:
            start, dot, name = path.rpartition(".")
            prefix = start + dot
            owner = self._owners.get(prefix)
            if owner is None:
                continue
            first = self._first_vars[prefix]
            if path not in state and name not in first:  # made after the start
                delattr(owner, name)
                continue
            value = state[path] if path in state else first[name]
            # A frozen object refuses to be set, and what has not changed need not be.
            if not _same_number(vars(owner).get(name), value):
                setattr(owner, name, value)

    def _numbers(self) -> dict[str, Any]:
        numbers = (
            (f"{prefix}{name}", value)
            for prefix, owner in self._owners.items()
            for name, value in vars(owner).items()
            if type(value) in _NUMBERS and name not in _MODE
        )
        return dict(islice(numbers, MOST_NUMBERS))


_NUMBERS = (bool, int, float)
_MODE = frozenset({"training", "_is_full_backward_hook"})
"""Attributes of every module; the training sets them itself."""


def _may_count(owner: Any) -> bool:
    """Whether this is an object with attributes of a class that is not torch's."""
    if isinstance(owner, FunctionType | MethodType | functools.partial | type):
        return False
    return hasattr(owner, "__dict__") and not type(owner).__module__.startswith("torch.")


def _same_number(value: Any, before: Any) -> bool:
    """Whether a number is still what it was; NaN equals NaN. False for anything else."""
    if type(value) not in _NUMBERS or type(value) is not type(before):
        return False
    return bool(value == before or (value != value and before != before))  # noqa: PLR0124


def _has_tensor(value: Any, depth: int = 3) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, _PLAIN):
        return False
    if isinstance(value, Mapping):
        return any(_has_tensor(each, depth - 1) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return any(_has_tensor(each, depth - 1) for each in value)
    return any(_has_tensor(each, depth - 1) for each in getattr(value, "__dict__", {}).values())
