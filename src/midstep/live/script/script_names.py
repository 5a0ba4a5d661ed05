"""The names that modules, optimizers, tensors and settings have in the script."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim import Optimizer

_LIBRARIES = ("torch.", "midstep.", "contextlib", "functools", "runpy", "importlib", "tqdm")
MOST_ITEMS = 64
"""Longer lists and dicts are data, not the parts of a training."""


def is_installed(frame: FrameType) -> bool:
    """Whether a function belongs to an installed library, and not to the script."""
    return "site-packages" in frame.f_code.co_filename


def named_values(frame: FrameType | None, *, only_script: bool = False) -> list[tuple[str, Any]]:
    """Variables of the functions that are running, the innermost first, with their names.

    Also what is in an attribute of `self`, and in a short list, tuple or dict.

    Args:
        frame: the innermost frame; those of torch and of midstep are passed over.
        only_script: pass over all installed libraries; a trainer of one may hold the model.
    """
    values: list[tuple[str, Any]] = []
    seen_globals: set[int] = set()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        is_passed = (module + ".").startswith(_LIBRARIES) or (only_script and is_installed(frame))
        if not is_passed:
            values += _variables(frame)
            if id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                values += _inside(frame.f_globals)
        frame = frame.f_back
    return values


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The local variables of a function; none of a module, whose variables are its globals."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    variables = frame.f_locals
    owner = variables.get("self")
    values = [*_inside(variables), *_inside(getattr(owner, "__dict__", {}))]
    if type(variables) is dict:
        # Up to Python 3.12 the frame keeps this copy, and with it every batch and graph in it.
        variables.clear()
    return values


def _inside(variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(variables.items()):
        if not isinstance(name, str) or name.startswith("__") or name == "self":
            continue
        yield name, value
        if isinstance(value, list | tuple) and len(value) <= MOST_ITEMS:
            yield from ((f"{name}[{index}]", item) for index, item in enumerate(value))
        elif isinstance(value, dict) and len(value) <= MOST_ITEMS:
            yield from ((f"{name}[{key}]", item) for key, item in value.items())


class ScriptNames:
    """What the variables of a script say about the parts of its training.

    Args:
        frame: the innermost frame; those of torch and of midstep are passed over.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.values = named_values(frame)

    def roots(self, parameters: Sequence[torch.Tensor]) -> dict[str, nn.Module]:
        """The outermost modules that own some of these parameters, by name."""
        from torch import nn

        wanted, named = {id(each) for each in parameters}, dict[int, tuple[str, nn.Module]]()
        for name, value in self.values:
            if isinstance(value, nn.Module) and id(value) not in named and _owns(value, wanted):
                named[id(value)] = (name, value)
        inner = {
            id(part)
            for _, module in named.values()
            for part in module.modules()
            if part is not module
        }
        roots = dict[str, nn.Module]()
        for key, (name, module) in named.items():
            if key not in inner:
                roots[_free_name(name, roots)] = module
        return roots

    def optimizer_name(self, optimizer: Optimizer) -> str | None:
        """The name of an optimizer; None if no variable holds it."""
        return self._name_of(optimizer)

    def tensor_names(self, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Parameters that no module owns, by their names in the script, or numbered."""
        names: dict[str, torch.Tensor] = {}
        for index, tensor in enumerate(tensors):
            names[_free_name(self._name_of(tensor) or f"parameter[{index}]", names)] = tensor
        return names

    def loader(self) -> Any:
        """The first DataLoader; None without one."""
        from torch.utils.data import DataLoader

        return next((value for _, value in self.values if isinstance(value, DataLoader)), None)

    def loader_name(self) -> str | None:
        """The name of that loader."""
        loader = self.loader()
        return None if loader is None else self._name_of(loader)

    def scheduler_names(self) -> list[str]:
        """The names of the learning-rate schedulers."""
        from torch.optim.lr_scheduler import LRScheduler

        names = {
            id(each): name for name, each in self.values[::-1] if isinstance(each, LRScheduler)
        }
        return sorted(names.values())

    def _name_of(self, wanted: object) -> str | None:
        return next((name for name, value in self.values if value is wanted), None)


def _owns(module: nn.Module, parameters: set[int]) -> bool:
    return any(id(each) in parameters for each in module.parameters())


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """`name`, or with a number if another thing has it."""
    name = name.replace(".", "_")
    if name not in taken:
        return name
    return next(each for each in (f"{name}_{n}" for n in range(2, 10_000)) if each not in taken)
