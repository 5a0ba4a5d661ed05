"""Tensors inside arguments and outputs: in mappings, sequences, dataclasses, named tuples."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

MOST_DEPTH = 6


def map_leaves(value: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """The same structure with `change` applied to everything in it except containers.

    >>> map_leaves({"x": [1, 2]}, lambda leaf: leaf + 1)
    {'x': [2, 3]}
    """
    if depth >= MOST_DEPTH or isinstance(value, Tensor | str):
        return change(value)
    if isinstance(value, Mapping):
        items = {key: map_leaves(each, change, depth + 1) for key, each in value.items()}
        if type(value) is dict:
            return items
        twin: Any = copy.copy(value)  # such as the output of a transformers model
        for key, each in items.items():
            twin[key] = each
        return twin
    if isinstance(value, list | tuple):
        parts = [map_leaves(each, change, depth + 1) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        twin = copy.copy(value)
        for each in dataclasses.fields(value):
            changed = map_leaves(getattr(value, each.name), change, depth + 1)
            object.__setattr__(twin, each.name, changed)  # also where it is frozen
        return twin
    return change(value)


def leaves(value: Any) -> list[Any]:
    """Everything in a value except containers, in order."""
    seen: list[Any] = []
    map_leaves(value, seen.append)
    return seen


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a value, in order."""
    return (each for each in leaves(value) if isinstance(each, Tensor))


def detached(value: Any) -> Any:
    """The same with every tensor detached; they share their memory with the given ones."""
    return map_leaves(value, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
