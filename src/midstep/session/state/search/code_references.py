"""What the code of a function refers to: variables, globals, and methods that it names."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILT_IN = ("builtins", "itertools")
_OUTSIDE = (
    "torch.",
    "numpy.",
    "midstep.",
    "_pytest.",
    "pytest.",
    "threading",
    "logging",
    "asyncio",
)
_MADE_OR_APPLIED = ("__init__", "__call__", "forward", "backward")
"""What runs of a class whose name the code uses: an instance is made, or a function applied."""
_INSTALLED = frozenset({*sys.stdlib_module_names, "torch", "numpy", "midstep"}) - {"__main__"}


@dataclass(frozen=True, slots=True)
class Method:
    """A function of a class with the object whose method it is."""

    function: types.FunctionType
    owner: Any

    @property
    def key(self) -> object:
        """Equal for the same method of the same object."""
        return id(self.function), id(self.owner)


def is_users_class(kind: type) -> bool:
    """Whether a class is neither of Python nor of the libraries that are not searched."""
    module = kind.__module__ or ""
    return module not in BUILT_IN and not module.startswith(_OUTSIDE)


def function_of(value: Any) -> types.FunctionType | None:
    """The function of a method, as a class has it; None for another attribute."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, classmethod | staticmethod):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def bound(value: Any, owner: Any) -> Any:
    """An attribute of a class: a function with its object, anything else as it is."""
    function = function_of(value)
    return value if function is None else Method(function, owner)


def references_of_function(
    function: types.FunctionType, owner: Any = None
) -> Iterator[tuple[str, Any]]:
    """Variables of enclosing functions, defaults, globals and methods that the code names."""
    code, variables = function.__code__, {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        content = cell_content(cell)
        if content is not None:
            variables[name] = content
    yield from variables.items()
    for index, default in enumerate(function.__defaults__ or ()):
        yield f"default_{index}", default
    yield from (function.__kwdefaults__ or {}).items()
    yield from vars(function).items()
    if not function.__module__ or function.__module__.startswith(_OUTSIDE):
        return
    if owner is not None:
        variables["self"] = owner
    yield from references_of_code(code, function.__globals__, variables)


def references_of_code(
    code: types.CodeType, global_variables: Mapping[str, Any], variables: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Globals that the code names, and what it uses of modules and objects by name."""
    names = dict.fromkeys(_names(code))
    named = {name: global_variables[name] for name in names if name in global_variables}
    yield from named.items()
    for name, value in {**named, **variables}.items():
        yield from _used(name, value, names)


def _names(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes, also of functions inside the function."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _used(
    path: str, value: Any, names: Mapping[str, object], depth: int = 2
) -> Iterator[tuple[str, Any]]:
    """What code with these names uses of a module, a class or an object of the user's."""
    if isinstance(value, types.ModuleType):
        inner = _named(vars(value), names) if _is_users_module(value) else {}
        yield from ((f"{path}.{name}", each) for name, each in inner.items())
    else:
        kind = value if isinstance(value, type) else type(value)
        if not is_users_class(kind):
            return
        searched = names if kind is not value else dict.fromkeys((*names, *_MADE_OR_APPLIED))
        for base in filter(is_users_class, kind.__mro__):
            for name, each in _named(vars(base), searched).items():
                if function_of(each) is not None or kind is value:
                    yield f"{path}.{name}", bound(each, value)
        inner = {} if kind is value else _named(_attributes(value), names)
    if depth:
        for name, each in inner.items():
            yield from _used(f"{path}.{name}", each, names, depth - 1)


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name; a module of torch keeps its submodules apart."""
    own = getattr(value, "__dict__", {})
    submodules = own.get("_modules")
    return {**own, **submodules} if isinstance(submodules, dict) else own


def _named(attributes: Mapping[str, Any], names: Mapping[str, object]) -> dict[str, Any]:
    """The attributes with these names, in the same order in each process."""
    return {name: attributes[name] for name in sorted(attributes.keys() & names.keys())}


def _is_users_module(module: types.ModuleType) -> bool:
    """Whether a module is neither of Python nor installed."""
    if module.__name__.partition(".")[0] in _INSTALLED:
        return False
    file = getattr(module, "__file__", None)
    return file is None or not {"site-packages", "dist-packages"} & {*Path(file).parts}


def cell_content(cell: types.CellType) -> Any:
    """The variable of an enclosing function; None if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
