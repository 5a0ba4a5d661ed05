"""Strict JSON that keeps what plain JSON loses: tuples, integer keys, infinities, bytes.

Values that JSON has are written unchanged. Everything else is an object whose first key is a tag
that starts with `!`: `{"!tuple": [1, 2]}`. Arrays and tensors are stored elsewhere and referred to
by name. Plain JSON is not enough: the state of `MultiStepLR` has a Counter with integer keys, that
of `ReduceLROnPlateau` an infinity.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.session.state.state_tree import ARRAY_KINDS, FACTORIES, Path, refuse, walk

Put = Callable[[Any, Path], dict[str, Any]]
"""Stores an array or tensor elsewhere; returns the JSON object that refers to it."""
Get = Callable[[dict[str, Any]], Any]
"""Returns the array or tensor that such an object refers to."""

EXACT_INTEGER = 1 << 53
"""From here on other readers of JSON round integers to doubles, so they are written as text."""
_QUIET_NAN = 0x7FF8000000000000
_NON_FINITE = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def _put_nowhere(_value: Any, path: Path) -> dict[str, Any]:
    raise refuse(path, "a tensor or array", "use numbers or lists here")


def _get_nowhere(document: dict[str, Any]) -> Any:
    raise FormatError(f"{str(document)[:60]} refers to a tensor where only plain values may be")


def dumps(tree: Any, put: Put = _put_nowhere) -> str:
    """Compact JSON of a tree; a value that cannot be saved raises `UnsavableError` with its path.

    >>> dumps({"a": (1, float("inf"))})
    '{"a":{"!tuple":[1,{"!float":"inf"}]}}'
    """
    return json.dumps(encode(tree, put), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes, get: Get = _get_nowhere) -> Any:
    """The tree that `dumps` wrote; anything malformed raises `FormatError`.

    >>> loads('{"!Counter":[["a",2]]}')
    Counter({'a': 2})
    """
    try:
        return decode(strict_json.loads(text), get)
    except RecursionError:
        raise FormatError("the state is nested too deeply") from None


# -- encoding ----------------------------------------------------------------------------------


def encode(tree: Any, put: Put = _put_nowhere) -> Any:
    """The tree as values that `json` writes without loss."""
    walk(tree)  # refuses unknown types, deep nesting, and a container inside itself
    return _encoded(tree, (), put)


def _encoded(value: Any, path: Path, put: Put) -> Any:
    if isinstance(value, torch.Tensor | np.ndarray):
        return put(value, path)
    if isinstance(value, dict):
        return _encoded_mapping(value, path, put)
    if type(value) in (list, tuple):
        items = [_encoded(item, (*path, index), put) for index, item in enumerate(value)]
        return items if type(value) is list else {"!tuple": items}
    if type(value) is deque:
        items = [_encoded(item, (*path, index), put) for index, item in enumerate(value)]
        return {"!deque": items, "maxlen": value.maxlen}
    if isinstance(value, set | frozenset):
        members = [_encoded(item, path, put) for item in value]
        return {f"!{type(value).__name__}": sorted(members, key=json.dumps)}
    return _encoded_leaf(value)


def _encoded_mapping(value: dict[Any, Any], path: Path, put: Put) -> dict[str, Any]:
    if type(value) is dict and all(_is_plain_key(key) for key in value):
        return {key: _encoded(item, (*path, key), put) for key, item in value.items()}
    pairs = [
        [_encoded(key, path, put), _encoded(item, (*path, key), put)] for key, item in value.items()
    ]
    tagged: dict[str, Any] = {f"!{type(value).__name__}": pairs}
    if isinstance(value, defaultdict):
        factory = value.default_factory
        tagged["factory"] = next(name for name, each in FACTORIES.items() if each is factory)
    if hasattr(value, "_metadata"):  # versions of the modules in a model's state_dict
        tagged["metadata"] = _encoded(value._metadata, (*path, "_metadata"), put)
    return tagged


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and not key.startswith("!") and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    """Whether it can be encoded as UTF-8: text with lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encoded_leaf(value: Any) -> Any:
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        return value if -EXACT_INTEGER < value < EXACT_INTEGER else {"!int": hex(value)}
    if type(value) is float:
        return _encoded_float(value)
    if type(value) is str:
        if _is_unicode(value):
            return value
        return {"!str": value.encode("utf-8", "surrogatepass").hex()}
    if type(value) is bytes:
        return {"!bytes": base64.b64encode(value).decode()}
    if type(value) is range:
        return {"!range": [value.start, value.stop, value.step]}
    if isinstance(value, torch.device):
        return {"!device": str(value)}
    if isinstance(value, torch.Size):
        return {"!size": list(value)}
    if isinstance(value, torch.dtype):
        return {"!dtype": str(value).removeprefix("torch.")}
    return {"!scalar": [value.dtype.str, _scalar_bytes(value).hex()]}


def _scalar_bytes(value: Any) -> bytes:
    """The bytes of a NumPy scalar; its own `tobytes` pads an empty string with zeros."""
    if value.dtype.kind == "U":
        return str(value).encode("utf-32-le", "surrogatepass")
    return bytes(value) if value.dtype.kind == "S" else bytes(value.tobytes())


def _encoded_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    [bits] = struct.unpack("<Q", struct.pack("<d", value))
    is_odd_nan = math.isnan(value) and bits != _QUIET_NAN
    return {"!float": f"{bits:016x}" if is_odd_nan else repr(value)}


# -- decoding-----------------------------------------------------------------------------------


def decode(document: Any, get: Get = _get_nowhere) -> Any:
    """The tree that `encode` turned into these JSON values.

    Raises:
        FormatError: a tag is unknown or its value malformed.
    """
    if isinstance(document, list):
        return [decode(item, get) for item in document]
    if not isinstance(document, dict):
        return document
    tag = next(iter(document), "")
    if not tag.startswith("!"):
        return {key: decode(item, get) for key, item in document.items()}
    if tag in ("!tensor", "!array"):
        return get(document)
    try:
        return _DECODERS[tag](document, get)
    except KeyError as error:
        raise FormatError(f"the tag {error.args[0]!r} is not known or lacks a field") from None
    except (TypeError, ValueError, AttributeError, struct.error) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"malformed {tag}: {error}") from None


def _pairs(items: Any, get: Get) -> Iterable[tuple[Any, Any]]:
    return [(decode(key, get), decode(item, get)) for key, item in items]


def _ordered(document: dict[str, Any], get: Get) -> OrderedDict[Any, Any]:
    state = OrderedDict(_pairs(document["!OrderedDict"], get))
    if "metadata" in document:
        state._metadata = decode(document["metadata"], get)  # type: ignore[attr-defined]
    return state


def _defaultdict(document: dict[str, Any], get: Get) -> defaultdict[Any, Any]:
    return defaultdict(FACTORIES[document["factory"]], _pairs(document["!defaultdict"], get))


def _deque(document: dict[str, Any], get: Get) -> deque[Any]:
    return deque(decode(document["!deque"], get), document["maxlen"])


def _float(text: str) -> float:
    if text in _NON_FINITE:
        return _NON_FINITE[text]
    [value] = struct.unpack("<d", struct.pack("<Q", int(text, 16)))
    return float(value)


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise FormatError(f"this torch has no type {name!r}; a newer one wrote the checkpoint")
    return dtype


def _scalar(dtype_text: str, digits: str) -> Any:
    dtype = np.dtype(dtype_text)
    if dtype.kind not in ARRAY_KINDS:
        raise FormatError(f"{dtype_text!r} is not a type of numbers or strings")
    data = bytes.fromhex(digits)
    if dtype.kind == "S":  # an array would drop zero bytes at the end
        return np.bytes_(data)
    if dtype.kind == "U":
        return np.str_(data.decode("utf-32-le", "surrogatepass"))
    return np.frombuffer(data, dtype=dtype)[0]


_DECODERS: dict[str, Callable[[dict[str, Any], Get], Any]] = {
    "!dict": lambda document, get: dict(_pairs(document["!dict"], get)),
    "!OrderedDict": _ordered,
    "!Counter": lambda document, get: Counter(dict(_pairs(document["!Counter"], get))),
    "!defaultdict": _defaultdict,
    "!deque": _deque,
    "!tuple": lambda document, get: tuple(decode(document["!tuple"], get)),
    "!set": lambda document, get: set(decode(document["!set"], get)),
    "!frozenset": lambda document, get: frozenset(decode(document["!frozenset"], get)),
    "!int": lambda document, _get: int(document["!int"], 16),
    "!float": lambda document, _get: _float(document["!float"]),
    "!str": lambda document, _get: bytes.fromhex(document["!str"]).decode("utf-8", "surrogatepass"),
    "!bytes": lambda document, _get: base64.b64decode(document["!bytes"], validate=True),
    "!range": lambda document, _get: range(*document["!range"]),
    "!device": lambda document, _get: torch.device(document["!device"]),
    "!size": lambda document, _get: torch.Size(document["!size"]),
    "!dtype": lambda document, _get: _dtype(document["!dtype"]),
    "!scalar": lambda document, _get: _scalar(*document["!scalar"]),
}
