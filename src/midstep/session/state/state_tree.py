"""Which states can be saved: trees of plain containers, numbers, text, arrays and tensors.

A leaf or container of any other type is refused with its path, before anything is copied or
written: midstep could not promise to restore it exactly.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from midstep.core.errors import ConfigError

MAX_DEPTH = 100
"""Levels of containers. JSON parsers have a limit, and a state this deep is a mistake."""
ARRAY_KINDS = "biufcmMSU"
"""Kinds of NumPy types that are bytes and nothing else: no Python objects, no records."""

Path = tuple[Any, ...]
"""Keys and indices from the root to a value."""

FACTORIES: dict[str, Any] = {
    "None": None,
    **{kind.__name__: kind for kind in (bool, int, float, str, list, dict, set, tuple)},
}
"""What a `defaultdict` may call for a missing key, by the name in a checkpoint."""

_MAPPINGS = frozenset({dict, OrderedDict, Counter, defaultdict})
_SETS = frozenset({set, frozenset})
_CONTAINERS = _MAPPINGS | _SETS | {list, tuple, deque}
_PLAIN = frozenset(
    {type(None), bool, int, float, str, bytes, range, torch.Size, torch.dtype, torch.device}
)
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


class UnsavableError(ConfigError):
    """A state has a value that cannot be saved exactly; the message has its path."""


def format_path(path: Path) -> str:
    """A path as text: keys and indices with dots between them.

    >>> format_path(("optimizer", "state", 0, "exp_avg"))
    'optimizer.state.0.exp_avg'
    """
    return ".".join(str(part) for part in path) or "the state itself"


def refuse(path: Path, what: str, remedy: str) -> UnsavableError:
    """The error for a value at `path` that cannot be saved."""
    return UnsavableError(f"{format_path(path)} is {what}, which cannot be saved; {remedy}")


def walk(tree: Any) -> list[tuple[Path, Any]]:
    """Every leaf with its path, in order.

    Raises:
        UnsavableError: a value cannot be saved.

    >>> walk({"a": [1, 2.0]})
    [(('a', 0), 1), (('a', 1), 2.0)]
    """
    leaves: list[tuple[Path, Any]] = []
    _visit(tree, (), (), leaves)
    return leaves


def check_savable(tree: Any, path: Path) -> None:
    """Raise `UnsavableError` if a value of the tree, which is found at `path`, cannot be saved."""
    _visit(tree, path, (), [])


def tensors_of(tree: Any) -> list[tuple[Path, torch.Tensor]]:
    """Every tensor with its path, in order."""
    return [(path, leaf) for path, leaf in walk(tree) if isinstance(leaf, torch.Tensor)]


def _visit(value: Any, path: Path, above: tuple[int, ...], leaves: list[tuple[Path, Any]]) -> None:
    """`above` holds the identities of the containers around `value`."""
    kind = type(value)
    if kind not in _CONTAINERS:
        check_leaf(value, path)
        leaves.append((path, value))
        return
    _check_nesting(value, path, above)
    inside = (*above, id(value))
    if kind in _MAPPINGS:
        if kind is defaultdict and value.default_factory not in FACTORIES.values():
            what = (
                f"a defaultdict of {getattr(value.default_factory, '__qualname__', 'a function')}"
            )
            raise refuse(path, what, "use dict(…) in state_dict()")
        for key, item in value.items():
            _check_key(key, path)
            _visit(item, (*path, key), inside, leaves)
        if hasattr(value, "_metadata"):  # versions of the modules in a model's state_dict
            _visit(value._metadata, (*path, "_metadata"), inside, leaves)
    elif kind in _SETS:
        for item in value:
            _check_key(item, path)
    else:
        for index, item in enumerate(value):
            _visit(item, (*path, index), inside, leaves)


def rebuild(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a tree that `walk` accepts: new containers, `change(leaf)` for each leaf."""
    kind = type(tree)
    if kind not in _CONTAINERS:
        return change(tree)
    if kind in _MAPPINGS:
        items = {key: rebuild(item, change) for key, item in tree.items()}
        if kind is defaultdict:
            return defaultdict(tree.default_factory, items)
        copy: Any = items if kind is dict else kind(items)
        if hasattr(tree, "_metadata"):
            copy._metadata = rebuild(tree._metadata, change)
        return copy
    if kind in _SETS:
        return kind(tree)
    members = [rebuild(item, change) for item in tree]
    return deque(members, tree.maxlen) if kind is deque else kind(members)


def _check_nesting(value: Any, path: Path, above: tuple[int, ...]) -> None:
    if id(value) in above:
        raise refuse(path, "a container inside itself", "take it out of the state")
    if len(above) >= MAX_DEPTH:
        raise refuse(path[:4], f"nested deeper than {MAX_DEPTH} levels", "make the state flatter")


def _check_key(key: Any, path: Path) -> None:
    """Refuse a key or a member of a set that is neither a plain value nor a tuple of them."""
    kind = type(key)
    if kind in _PLAIN:
        return
    if kind in (tuple, frozenset):
        for part in key:
            _check_key(part, path)
    elif isinstance(key, np.generic):
        _check_numbers(key, (*path, key))
    else:
        raise refuse(
            (*path, f"key {str(key)[:40]}"),
            f"a key of type {kind.__qualname__}",
            "use numbers or strings as keys",
        )


def check_leaf(value: Any, path: Path) -> None:
    """Refuse a leaf that is neither a plain value nor an array nor a tensor."""
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, torch.Tensor):
        _check_tensor(value, path)
    elif isinstance(value, np.generic) or kind is np.ndarray:
        _check_numbers(value, path)
    else:
        raise refuse(path, *_problem(value))


def _problem(value: Any) -> tuple[str, str]:
    """What a value of an unknown type is, and what the user can do."""
    name = f"a {type(value).__module__}.{type(value).__qualname__}"
    for base in (dict, tuple, list, set, str, int, float, bytes, np.ndarray):
        if isinstance(value, base):
            plain = "numpy.asarray" if base is np.ndarray else base.__name__
            return name, f"convert it to a plain one with {plain}(…) in state_dict()"
    if callable(value):
        return name, "leave code out of state_dict() and set it again when the object is built"
    return name, "let state_dict() return numbers, strings, tensors and containers of these"


def _check_tensor(value: torch.Tensor, path: Path) -> None:
    if type(value) not in _TENSORS:
        name = f"a tensor of the class {type(value).__qualname__}"
        if "Uninitialized" in name:
            raise refuse(path, name, "run one batch through the model first")
        raise refuse(path, name, "convert it to a plain tensor in state_dict()")
    if value.layout is not torch.strided or value.is_nested:
        raise refuse(path, f"a tensor of layout {value.layout}", "keep it dense (to_dense())")
    if value.is_quantized:
        raise refuse(path, "a quantised tensor", "keep its int_repr(), scale and zero point")
    if value.is_meta:
        raise refuse(path, "a tensor without data (device meta)", "give it data first (to_empty())")


def _check_numbers(value: Any, path: Path) -> None:
    dtype: np.dtype[Any] = value.dtype
    if dtype.kind not in ARRAY_KINDS or dtype.hasobject or dtype.names is not None:
        raise refuse(path, f"a NumPy value of type {dtype}", "use plain numbers or strings")
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise refuse(path, f"a NumPy {dtype}", "convert it to float64 or complex128")
