"""The names that modules, optimizers, tensors and settings have in the script."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from midstep.live.script.frame_locals import unchanged_locals

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


class Variable(NamedTuple):
    """A variable of a script, or what is in a container or in an attribute of `self`."""

    name: str
    value: Any
    code: str | None
    """The expression of the script that gives this value; None if a library holds it."""
    method: tuple[str, Any] | None = None
    """Where the code begins with `self`: the method, as `Trainer.fit`, and the object."""


class Method(NamedTuple):
    """A method of the script in which an expression with `self` holds."""

    name: str
    """Class and name, as `Trainer.fit`."""
    code: str
    """The expression."""
    variable: str | None
    """The variable of the script that holds the same object; None without one."""


def named_values(frame: FrameType | None, *, only_script: bool = False) -> list[Variable]:
    """Variables of the functions that are running, the innermost first, with their names.

    Also what is in an attribute of `self`, and in a short list, tuple or dict.

    Args:
        frame: the innermost frame; those of torch and of midstep are passed over.
        only_script: pass over all installed libraries; a trainer of one may hold the model.
    """
    values: list[Variable] = []
    seen_globals: set[int] = set()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        is_passed = (module + ".").startswith(_LIBRARIES) or (only_script and is_installed(frame))
        if not is_passed:
            variables = _variables(frame)
            if id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                variables += _inside(frame.f_globals)
            if is_installed(frame):
                variables = [each._replace(code=None) for each in variables]
            values += variables
        frame = frame.f_back
    return values


def _variables(frame: FrameType) -> list[Variable]:
    """The local variables of a function; none of a module, whose variables are its globals."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    with unchanged_locals(frame) as variables:
        owner = variables.get("self")
        # The name of a class that a function makes begins with that of the function.
        method = frame.f_code.co_qualname.rpartition("<locals>.")[2], owner
        attributes = _inside(getattr(owner, "__dict__", {}), "self.")
        return [*_inside(variables), *(each._replace(method=method) for each in attributes)]


def _inside(variables: Mapping[str, Any], prefix: str = "") -> Iterator[Variable]:
    for name, value in list(variables.items()):
        if not isinstance(name, str) or name.startswith("__") or name == "self":
            continue
        code = prefix + name
        yield Variable(name, value, code)
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, list | tuple) and len(value) <= MOST_ITEMS:
            items = enumerate(value)
        elif isinstance(value, dict) and len(value) <= MOST_ITEMS:
            items = value.items()
        for index, (key, item) in enumerate(items):
            if isinstance(key, str | int):
                yield Variable(f"{name}[{key}]", item, f"{code}[{key!r}]")
            else:  # to write a key such as a tensor may take long
                yield Variable(f"{name}[{index}]", item, None)


class ScriptNames:
    """What the variables of a script say about the parts of its training.

    Args:
        frame: the innermost frame; those of torch and of midstep are passed over.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.values = named_values(frame)

    def roots(
        self, parameters: Sequence[torch.Tensor], known: Mapping[str, nn.Module] | None = None
    ) -> dict[str, nn.Module]:
        """The outermost modules that own some of these parameters, by name, after the known ones.

        Args:
            parameters: what is trained.
            known: modules that own others.
        """
        from torch import nn

        wanted, named = {id(each) for each in parameters}, dict[int, tuple[str, nn.Module]]()
        for name, value, *_ in self.values:
            if isinstance(value, nn.Module) and id(value) not in named and _owns(value, wanted):
                named[id(value)] = (name, value)
        inner = {
            id(part)
            for _, module in named.values()
            for part in module.modules()
            if part is not module
        }
        roots = dict(known or {})
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

    def loader(self, order: int | None) -> Any:
        """The DataLoader that draws its batches in this order; None without one.

        Args:
            order: id of the sampler of the iterator that gave the script a batch to train on.
        """
        from torch.utils.data import DataLoader

        loaders = (each.value for each in self.values if isinstance(each.value, DataLoader))
        return next((each for each in loaders if id(each._index_sampler) == order), None)

    def all_of(self, kind: type) -> dict[str, str]:
        """Names and code of the objects of a class, in the order of their names."""
        named = {
            id(each.value): (each.name, each.code)
            for each in self.values[::-1]
            if isinstance(each.value, kind) and each.code is not None
        }
        return dict(sorted(named.values()))

    def code_of(self, wanted: object) -> str | None:
        """The expression of the script that gives this object; None if no variable holds it."""
        codes = (each.code for each in self.values if each.value is wanted)
        return next((code for code in codes if code is not None), None)

    def methods_of(self, codes: Iterable[str]) -> list[Method]:
        """The methods in which expressions with `self` hold, each once.

        Of the methods of one object the outermost: `fit` has the loop, and calls `step`.
        """
        methods: dict[str, Method] = {}
        for code in codes:
            same = [each for each in self.values if each.code == code and each.method is not None]
            outermost = [each.method for each in same if each.value is same[0].value][-1:]
            for name, owner in filter(None, outermost):
                held = (each for each in self.values if each.value is owner and not each.method)
                variable = next((each.code for each in held if each.code is not None), None)
                methods.setdefault(name, Method(name, code, variable))
        return list(methods.values())

    def optimizer_code(self, optimizer: Optimizer) -> str | None:
        """The expression of an optimizer, or of the object that wraps it, as Accelerate does."""
        wrappers = (
            each.code
            for each in self.values
            if each.code is not None and getattr(each.value, "optimizer", None) is optimizer
        )
        return self.code_of(optimizer) or next(wrappers, None)

    def _name_of(self, wanted: object) -> str | None:
        return next((each.name for each in self.values if each.value is wanted), None)


def _owns(module: nn.Module, parameters: set[int]) -> bool:
    return any(id(each) in parameters for each in module.parameters())


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """`name`, or with a number if another thing has it."""
    name = name.replace(".", "_")
    if name not in taken:
        return name
    return next(each for each in (f"{name}_{n}" for n in range(2, 10_000)) if each not in taken)
