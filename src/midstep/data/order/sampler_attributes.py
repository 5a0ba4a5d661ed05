"""What samplers of the user's own keep in attributes from one epoch to the next."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch

from midstep.data.order.samplers import nested_samplers

MOST_ITEMS = 1 << 14
"""Items of a container that is saved at most."""
MOST_BYTES = 1 << 20
"""Bytes of an array or a tensor that is saved at most."""
UNSAVED = "unsaved"
"""Key of the names of attributes that have changed and are too large to save."""
_LOOKED_AT = 64
"""Items of a larger container by which a change of it is noticed."""
_NUMBERS = frozenset({bool, int, float})
_PLAIN = frozenset({*_NUMBERS, str, type(None)})
_SEQUENCES = frozenset({list, tuple, deque})


class SamplerAttributes:
    """The attributes of one sampler: its numbers, and containers, arrays and tensors that changed.

    What is as it was when the loader was patched is not saved: it is a setting, such as the weights
    of the samples, and belongs to the script.

    Args:
        sampler: of the user's own class.

    >>> class Rotating:
    ...     def __init__(self):
    ...         self.calls, self.order = 0, [0, 1, 2]
    >>> sampler = Rotating()
    >>> attributes = SamplerAttributes(sampler)
    >>> attributes.state()
    {'calls': 0}
    >>> sampler.order.append(sampler.order.pop(0))
    >>> attributes.state()
    {'calls': 0, 'order': [1, 2, 0]}
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._first = {name: _kept(value) for name, value in vars(sampler).items()}

    def state(self) -> dict[str, Any]:
        """What to save."""
        state: dict[str, Any] = {}
        unsaved = []
        for name, value in vars(self._sampler).items():
            if type(value) in _NUMBERS:
                state[name] = value
            elif not _same(self._first.get(name), now := _kept(value)):
                if _is_savable(value):
                    state[name] = now
                else:
                    unsaved.append(name)
        return {**state, UNSAVED: unsaved} if unsaved else state

    def load(self, state: Mapping[str, Any]) -> list[str]:
        """Restore what `state` returned; returns what it lacks, in words."""
        present = vars(self._sampler)
        for name, value in state.items():
            if name not in present or _same(present[name], value):
                continue
            if present[name] is None or type(present[name]) is type(value):
                setattr(self._sampler, name, copy.deepcopy(value))
        kind = type(self._sampler).__name__
        return [
            f"the sampler {kind} has changed its attribute {name!r}, which is too large to save; "
            "if its order depends on that, give it a generator or `set_epoch` instead"
            for name in state.get(UNSAVED, [])
        ]


def attributes_of_samplers(sampler: Any) -> list[SamplerAttributes]:
    """Those of the user's own classes; samplers of torch keep nothing between epochs."""
    return [
        SamplerAttributes(each)
        for each in nested_samplers(sampler)
        if hasattr(each, "__dict__") and not type(each).__module__.startswith("torch.")
    ]


def _is_savable(value: Any) -> bool:
    """Whether this is plain data of a bounded size."""
    if isinstance(value, torch.Tensor | np.ndarray):
        is_plain = isinstance(value, torch.Tensor) or not value.dtype.hasobject
        return is_plain and value.nbytes <= MOST_BYTES
    return _items(value) <= MOST_ITEMS


def _items(value: Any) -> int:
    """How many items a container holds, its inner ones included; more than allowed if not plain."""
    if type(value) in _PLAIN:
        return 1
    inner: Iterable[Any]
    if type(value) is dict and all(type(key) in _PLAIN for key in islice(value, MOST_ITEMS)):
        inner = value.values()
    elif type(value) in _SEQUENCES:
        inner = value
    else:
        return MOST_ITEMS + 1
    if len(value) > MOST_ITEMS or set(map(type, inner)) <= _PLAIN:
        return len(value)
    count = 0
    for each in inner:
        count += _items(each)
        if count > MOST_ITEMS:
            break
    return count


def _kept(value: Any) -> Any:
    """A copy of plain data; of larger data, what a change of it is noticed by. None for others."""
    if _is_savable(value):
        return copy.deepcopy(value)
    if isinstance(value, torch.Tensor):
        flat = value.detach().reshape(-1)
        return flat[:: max(1, len(flat) // _LOOKED_AT)].tolist()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        flat_array = value.reshape(-1)
        return flat_array[:: max(1, len(flat_array) // _LOOKED_AT)].tolist()
    if type(value) in _SEQUENCES and set(map(type, islice(value, _LOOKED_AT))) <= _PLAIN:
        spread = islice(value, 0, None, max(1, len(value) // _LOOKED_AT))
        return [len(value), *(each for each in spread if type(each) in _PLAIN)]
    return None


def _same(one: Any, other: Any) -> bool:
    """Whether two values of attributes are equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and bool(torch.equal(one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
