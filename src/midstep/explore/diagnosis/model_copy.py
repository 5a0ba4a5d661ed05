"""A copy of a module with other weights, without its hooks, that shares nothing it could change."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from midstep.core.errors import MidstepError

MOST_ATTRIBUTE_BYTES = 256 << 20
"""Tensors and arrays that a module may hold besides its parameters and buffers."""
MOST_OBJECTS = 50_000
"""Objects in its attributes; a module that holds a whole trainer or dataset is not copied."""
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_INTERNAL = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", *_HOOKS}


class CopyRefusedError(MidstepError, RuntimeError):
    """A module cannot be copied; the message says why."""


def copy_module(
    module: nn.Module, values: Mapping[int, Tensor], memo: dict[int, Any] | None = None
) -> nn.Module:
    """A copy of `module` whose parameters and buffers have other values.

    Hooks are left out: those of the user may record, and ours do. Hooks of torch itself that
    compute weights (weight norm, spectral norm, pruning) stay.

    Args:
        module: only read.
        values: for parameters and buffers, by `id`; others keep the value that they have.
        memo: of earlier copies, so that modules share in their copies what they share.

    Raises:
        CopyRefusedError: it holds something that cannot be copied, or too much.

    >>> layer = nn.Linear(2, 1)
    >>> other = copy_module(layer, {id(layer.bias): torch.tensor([7.0])})
    >>> other.bias.item(), bool(layer.bias.item() == 7.0)
    (7.0, False)
    """
    memo = {} if memo is None else memo
    tensors = _own_tensors(module)
    for tensor in tensors:
        if id(tensor) not in memo:
            memo[id(tensor)] = _with_value(tensor, values.get(id(tensor), tensor))
    for each in module.modules():
        for name in _HOOKS:
            hooks = vars(each).get(name)
            if hooks is not None:
                memo[id(hooks)] = _torch_hooks(hooks, each, name)
    for tensor in _held_tensors(module, {id(tensor) for tensor in tensors}):
        memo.setdefault(id(tensor), tensor.detach().clone())
    # While the copy is made, originals must not be freed: an id could then name another object.
    memo.setdefault(id(memo), []).append(tensors)
    try:
        twin = copy.deepcopy(module, memo)
    except Exception as error:
        # Locks, open files, generators and classes with a `__deepcopy__` of their own.
        raise CopyRefusedError(
            f"the model cannot be copied ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    _check_separate(tensors, twin)
    return twin


def _own_tensors(module: nn.Module) -> list[Tensor]:
    """Parameters and buffers, each once."""
    every: list[Tensor] = [*module.parameters(), *module.buffers()]
    return list({id(tensor): tensor for tensor in every}.values())


def _with_value(tensor: Tensor, value: Tensor) -> Tensor:
    """A tensor like `tensor` with a value of its own."""
    if value.shape != tensor.shape:  # a lazy parameter, which had no shape then
        value = tensor
    data = value.detach().to(device=tensor.device, dtype=tensor.dtype, copy=True)
    if type(tensor) is nn.Parameter:
        return nn.Parameter(data, requires_grad=tensor.requires_grad)
    if type(tensor) is Tensor:
        return data.requires_grad_(tensor.requires_grad)
    twin = copy.deepcopy(tensor)
    with torch.no_grad():
        twin.copy_(data)
    return twin


def _torch_hooks(hooks: Mapping[int, Any], module: nn.Module, name: str) -> OrderedDict[int, Any]:
    """The hooks of torch itself, such as those that compute a normalised weight."""
    kind = name.removesuffix("_with_kwargs").removesuffix("_always_called")
    functions = vars(module).get(kind, {})
    # Not `.values()`: hidden hooks leave themselves out of it.
    kept = {key for key in functions if _is_of_torch(functions[key])}
    return OrderedDict((key, hooks[key]) for key in hooks if key in kept)


def _is_of_torch(hook: Any) -> bool:
    kind = hook if isinstance(hook, type) else type(hook)
    return getattr(kind, "__module__", "").startswith("torch.nn.utils")


def _held_tensors(module: nn.Module, known: set[int]) -> list[Tensor]:
    """Tensors in other attributes of the modules, such as a weight that a hook has computed.

    Raises:
        CopyRefusedError: there is too much to copy besides the weights.
    """
    tensors: list[Tensor] = []
    size, seen = 0, set(known)
    stack: list[Any] = [
        value
        for each in module.modules()
        for name, value in vars(each).items()
        if name not in _INTERNAL
    ]
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type | nn.Module):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            tensors.append(value)
            size += _bytes_of(value)
        elif isinstance(value, np.ndarray):
            size += value.nbytes
        else:
            stack.extend(_parts_of(value))
        if size > MOST_ATTRIBUTE_BYTES or len(seen) > MOST_OBJECTS + len(known):
            raise CopyRefusedError(
                "the model cannot be copied: it holds much more than its weights "
                f"({size >> 20:,} MiB in {len(seen):,} objects were found and the search ended)"
            )
    return tensors


def _parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    own = getattr(value, "__dict__", None)
    return [*own.values()] if isinstance(own, dict) and not callable(value) else ()


def _bytes_of(tensor: Tensor) -> int:
    try:
        return tensor.nbytes
    except (RuntimeError, TypeError):  # sparse
        return 0


def _check_separate(tensors: Iterable[Tensor], twin: nn.Module) -> None:
    """A forward pass of the copy may write to its buffers: none may be the original's."""
    original = {tensor.untyped_storage().data_ptr() for tensor in tensors if _has_storage(tensor)}
    copied = (tensor for tensor in _own_tensors(twin) if _has_storage(tensor))
    if any(tensor.untyped_storage().data_ptr() in original for tensor in copied):
        raise CopyRefusedError(
            f"the model cannot be copied: a copy of its {type(twin).__name__} shares its weights"
        )


def _has_storage(tensor: Tensor) -> bool:
    try:
        return tensor.numel() > 0 and tensor.untyped_storage().data_ptr() != 0
    except (RuntimeError, NotImplementedError):  # sparse, or a type of the user
        return False
