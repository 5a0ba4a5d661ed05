"""What a value refers to, by name: attributes, items, hooks and the variables of functions."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from midstep.session.state.search.code_references import (
    Method,
    bound,
    cell_content,
    function_of,
    is_users_class,
    references_of_function,
)

MOST_ITEMS = 32
"""Most items of a container that are searched."""
_METHODS = frozenset({"forward", "__call__", "__getitem__", "__getitems__", "__iter__"})
"""Methods that compute or read samples; other methods of a class are not searched."""
_DECLARED_METHODS = ("step", "get_lr")
"""Methods of the user's own optimizers and schedulers that are searched."""
_LAZY = (map, filter, zip, enumerate, reversed)
"""Iterators over other ones; those of `itertools` are, too."""
_SEQUENCE_ITERATORS = frozenset({"list_iterator", "tuple_iterator"})
DEPTH_OF_ITERATORS = 4
"""How many sequences deep a running pass is looked for in an iterator."""


def is_running_pass(value: Any) -> bool:
    """Whether this is an iterator over data whose position only it knows."""
    if isinstance(value, types.GeneratorType):
        variables = {} if value.gi_frame is None else value.gi_frame.f_locals
        return any(
            isinstance(each, DataLoader | _BaseDataLoaderIter) for each in variables.values()
        )
    if isinstance(value, _BaseDataLoaderIter | itertools.cycle):
        return True
    return _is_lazy(value) and _holds_pass(value, is_chain=isinstance(value, itertools.chain))


def _holds_pass(value: Any, *, is_chain: bool, depth: int = DEPTH_OF_ITERATORS) -> bool:
    """Whether an iterator reads from a running pass."""
    for each in _inside(value):
        # A `chain` begins the pass over a loader only when the one before has ended.
        if is_running_pass(each) or (is_chain and isinstance(each, DataLoader)):
            return True
        is_sequence = isinstance(each, tuple | list) or type(each).__name__ in _SEQUENCE_ITERATORS
        if depth and is_sequence and _holds_pass(each, is_chain=is_chain, depth=depth - 1):
            return True
    return False


def _is_lazy(value: Any) -> bool:
    return isinstance(value, _LAZY) or type(value).__module__ == "itertools"


def _inside(value: Any) -> list[Any]:
    """What an iterator of Python reads from and calls. Reading it moves nothing."""
    held = value if isinstance(value, tuple | list) else gc.get_referents(value)
    return [each for each in itertools.islice(held, MOST_ITEMS) if not isinstance(each, type)]


def references_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value refers to, by name."""
    if isinstance(value, types.FunctionType):
        yield from references_of_function(value)
    elif isinstance(value, Method):
        yield from references_of_function(value.function, value.owner)
    elif isinstance(value, types.MethodType):
        function = value.__func__
        yield "self", value.__self__
        yield "function", bound(function, value.__self__)
    elif isinstance(value, types.BuiltinFunctionType):
        yield "self", value.__self__  # `rng.random` is a method of its generator
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("arguments", value.args), ("named", value.keywords))
    elif isinstance(value, types.CellType):
        with_content = cell_content(value)
        yield from () if with_content is None else [("value", with_content)]
    elif isinstance(value, nn.Module):
        for name, module in value.named_modules():
            yield from _attributes(module, name)
            yield from _hooks(module, name)
    else:
        yield from _items(value)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a container or an iterator, or the attributes of an object."""
    if isinstance(value, dict):
        for key, each in itertools.islice(value.items(), MOST_ITEMS):
            yield str(key), each
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((str(i), each) for i, each in enumerate(itertools.islice(value, MOST_ITEMS)))
    elif _is_lazy(value) or type(value).__name__ in _SEQUENCE_ITERATORS:
        yield from ((str(i), each) for i, each in enumerate(_inside(value)))
    elif isinstance(value, DataLoader | Dataset) or (
        is_users_class(type(value)) and not isinstance(value, Mapping)
    ):
        yield from _attributes(value, "")


def references_of_declared(part: Any) -> Iterator[tuple[str, Any]]:
    """What an optimizer or a scheduler calls or keeps besides its state."""
    base = {"state", "param_groups", "defaults", "optimizer"}
    for name, each in _attributes(part, ""):
        if name.startswith("_optimizer_"):
            yield from _by_position(f"{name}.", each)
        elif name not in base:
            yield name, each
    for kind in filter(is_users_class, type(part).__mro__):
        for name in _DECLARED_METHODS:
            if (function := function_of(vars(kind).get(name))) is not None:
                # torch replaces `step` of the class by a function that calls it.
                yield name, bound(inspect.unwrap(function), part)
    for index, group in enumerate(getattr(part, "param_groups", ())):
        for position, tensor in enumerate(group["params"]):
            yield from _tensor_hooks(tensor, f"{index}.{position}")


def _attributes(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance and of its class; not parameters and submodules."""
    own = {**getattr(value, "__dict__", {}), **dict(_slots(value))}
    for name, each in [*own.items(), *_class_attributes(value, own)]:
        if not (isinstance(value, nn.Module) and name.startswith("_") and isinstance(each, dict)):
            yield f"{prefix}.{name}" if prefix else name, each


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of the user's keeps in `__slots__`."""
    for kind in type(value).__mro__:
        if "__slots__" in vars(kind) and is_users_class(kind):
            for name, slot in vars(kind).items():
                if isinstance(slot, types.MemberDescriptorType):
                    try:
                        yield name, slot.__get__(value)
                    except AttributeError:  # not assigned yet
                        continue


def _class_attributes(value: Any, own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the user's classes share between their instances, and what their data methods use."""
    for kind in type(value).__mro__:
        if is_users_class(kind):
            for name, each in vars(kind).items():
                is_method = function_of(each) is not None
                is_searched = name in _METHODS if is_method else not name.startswith("__")
                if is_searched and name not in own:
                    yield name, bound(each, value)


def _hooks(module: nn.Module, prefix: str) -> Iterator[tuple[str, Any]]:
    """The functions that a module calls before or after its forward or backward pass."""
    # Named by position: the keys of hooks are counted over the whole process.
    start = f"{prefix}.hook_" if prefix else "hook_"
    for kind in ("_forward_hooks", "_forward_pre_hooks"):
        yield from _by_position(start, getattr(module, kind, None))
    start = f"{prefix}.backward_hook_" if prefix else "backward_hook_"
    for kind in ("_backward_hooks", "_backward_pre_hooks"):
        yield from _by_position(start, getattr(module, kind, None))
    for name, tensor in module._parameters.items():
        if tensor is not None:
            yield from _tensor_hooks(tensor, f"{prefix}.{name}" if prefix else name)


def _tensor_hooks(tensor: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The functions that autograd calls with the gradient of a tensor."""
    for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if (hooks := getattr(tensor, kind, None)) is not None:
            yield from _by_position(f"{name}.{kind}.", hooks)


def _by_position(start: str, hooks: Any) -> Iterator[tuple[str, Any]]:
    for index, hook in enumerate(list((hooks or {}).values())):
        yield f"{start}{index}", hook
