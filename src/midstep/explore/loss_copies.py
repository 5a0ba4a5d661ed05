"""A copy of a loss, to be called without any effect on the training.

A loss may have state: buffers, counters, a list that it appends to, a generator. The copy has its
own. What cannot be copied is not called.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST_BYTES = 64 << 20
"""Tensors of a loss beyond this are not copied: a network inside of it, or a memory bank."""
MOST_ITEMS = 10_000
MOST_DEPTH = 4
"""How deep attributes, containers and functions that call functions are followed."""
_SHARED = (
    *(type(None), bool, int, float, complex, str, bytes, type, Enum, ModuleType),
    *(torch.dtype, torch.device, torch.Size, torch.jit.ScriptFunction, BuiltinFunctionType),
)
"""Values without a state that a call could change."""
_COPIED = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random, np.ndarray)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)


class NotCopiedError(Exception):
    """A loss cannot be copied; the text says why, as the end of a sentence."""


def copy_loss(loss_fn: Any) -> Callable[..., Any]:
    """A copy of a module, a function or a callable object, with its own state.

    Parameters of a module are shared if they are large; its buffers never are.

    Raises:
        NotCopiedError: it has state that cannot be copied, or too much of it.

    >>> class Counting(nn.Module):
    ...     calls = 0
    ...     def forward(self, output):
    ...         self.calls += 1
    ...         return output.sum()
    >>> loss = Counting()
    >>> _ = copy_loss(loss)(torch.ones(2))
    >>> loss.calls
    0
    """
    return _Copier().copied(loss_fn, 0)  # type: ignore[no-any-return]


def uncompiled(loss_fn: Any) -> Any:
    """The module or function that `torch.compile` was given; else the loss itself.

    A compiled one would be compiled again for a batch of one.
    """
    module = getattr(loss_fn, "_orig_mod", None)
    return getattr(loss_fn, "_torchdynamo_orig_callable", loss_fn) if module is None else module


class _Copier:
    """One walk over a loss."""

    def __init__(self) -> None:
        self._items = self._bytes = 0
        self._done: dict[int, Any] = {}  # by id: an object that occurs twice is copied once

    def copied(self, value: Any, depth: int) -> Any:
        value = uncompiled(value)
        if isinstance(value, _SHARED):
            return value
        if id(value) not in self._done:
            self._count()
            self._done[id(value)] = self._copy(value, depth)
        return self._done[id(value)]

    def _count(self, size: int = 0) -> None:
        self._items += 1
        self._bytes += size
        if self._items > MOST_ITEMS or self._bytes > MOST_BYTES:
            raise NotCopiedError("it refers to too many objects, or to large ones")

    def _copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, nn.Module):
            return self._copy_module(value)
        if isinstance(value, Tensor):
            self._count(value.nbytes)
            return value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, _COPIED):
            return copy.deepcopy(value)
        if isinstance(value, FunctionType):
            return self._copy_function(value, depth)
        if isinstance(value, MethodType):
            return MethodType(value.__func__, self.copied(value.__self__, depth))
        if isinstance(value, functools.partial):
            args = [self.copied(each, depth) for each in value.args]
            named = {name: self.copied(each, depth) for name, each in value.keywords.items()}
            return functools.partial(self.copied(value.func, depth), *args, **named)
        if depth >= MOST_DEPTH:
            raise NotCopiedError("what it refers to is nested too deep")
        if isinstance(value, _CONTAINERS):
            return self._copy_container(value, depth + 1)
        return self._copy_object(value, depth + 1)

    def _copy_module(self, module: nn.Module) -> nn.Module:
        self._count(sum(each.nbytes for each in module.buffers()))
        parameters = list(module.parameters())
        known: dict[int, Any] = {}
        if sum(each.nbytes for each in parameters) > MOST_BYTES:
            known = {id(each): each for each in parameters}
        try:
            return copy.deepcopy(module, known)
        except Exception as error:  # noqa: BLE001 - `__deepcopy__` of the user may raise anything
            raise NotCopiedError(f"{type(error).__name__}: {str(error)[:120]}") from None

    def _copy_function(self, function: FunctionType, depth: int) -> FunctionType:
        """The same code, with copies of what it refers to by closure, default or global name."""
        if depth >= MOST_DEPTH or _is_of_library(function):
            return function
        own = {name: self.copied(value, depth + 1) for name, value in _globals_used(function)}
        cells = tuple(self._copy_cell(cell, depth + 1) for cell in function.__closure__ or ())
        defaults = self.copied(function.__defaults__, depth)
        twin = FunctionType(
            function.__code__, {**function.__globals__, **own}, function.__name__, defaults, cells
        )
        twin.__kwdefaults__ = self.copied(function.__kwdefaults__, depth)
        return twin

    def _copy_cell(self, cell: CellType, depth: int) -> CellType:
        try:
            return CellType(self.copied(cell.cell_contents, depth))
        except ValueError:  # the variable has no value yet
            return CellType()

    def _copy_container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            twin = copy.copy(value)  # the same class, such as a `defaultdict`
            twin.update({key: self.copied(each, depth) for key, each in value.items()})
            return twin
        items = [self.copied(each, depth) for each in value]
        if hasattr(value, "_make"):
            return value._make(items)
        return deque(items, value.maxlen) if isinstance(value, deque) else type(value)(items)

    def _copy_object(self, value: Any, depth: int) -> Any:
        """An object of a class of the user, such as a loss with `__call__`."""
        if not hasattr(value, "__dict__") or type(value).__module__ == "builtins":
            raise NotCopiedError(f"it refers to a {type(value).__name__}, which may have state")
        twin = copy.copy(value)
        vars(twin).update({name: self.copied(each, depth) for name, each in vars(value).items()})
        return twin


_LIBRARIES = frozenset({"torch", "numpy", "einops", *sys.stdlib_module_names})


def _is_of_library(value: Any) -> bool:
    """Whether a function or class is of a library that has no state of its own."""
    return (value.__module__ or "").partition(".")[0] in _LIBRARIES


def _globals_used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Global variables that the code of a function names and that may have state."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, _SHARED):
            continue
        if isinstance(
            value, (nn.Module, Tensor, functools.partial, *_COPIED, *_CONTAINERS)
        ) or not _is_of_library(value if isinstance(value, FunctionType) else type(value)):
            yield name, value
