"""Strict JSON: NaN and the infinities are written as strings.

Reading refuses them as numbers, and also repeated keys and numbers out of range.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from midstep.core.errors import FormatError

MAX_DEPTH = 64
_NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def plain(value: Any) -> Any:
    """`value` as numbers, strings, lists and dicts that strict JSON can hold.

    Tensors and arrays become lists, sets become sorted lists, any other object its `repr`.
    A container inside itself, or deeper than 64 levels, is replaced by a note.

    >>> plain({"loss": float("nan"), 3: (1, 2)})
    {'loss': 'NaN', '3': [1, 2]}
    """
    return _plain(value, ())


def _plain(value: Any, containers: tuple[int, ...]) -> Any:
    """`containers` holds the identities of the containers around `value`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NON_FINITE.get(value, "NaN")
    if id(value) in containers:
        return "<contains itself>"
    # Before Python's recursion limit, which a deep value would otherwise hit inside `json`.
    if len(containers) >= MAX_DEPTH:
        return f"<deeper than {MAX_DEPTH} levels>"
    inside = (*containers, id(value))
    if isinstance(value, Mapping):
        return {_clean(str(key)): _plain(item, inside) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, inside) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, inside) for item in value), key=str)
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), inside)
    return _clean(repr(value))


def _clean(text: str) -> str:
    """The text with lone surrogates replaced, since UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def dumps(value: Any) -> str:
    """Compact strict JSON of `value`, after `plain`.

    >>> dumps({"a": float("inf")})
    '{"a":"Infinity"}'
    """
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    """Parse strict JSON.

    Raises:
        FormatError: if it is not JSON, repeats a key, or has NaN or a number out of range.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise FormatError("JSON is nested too deeply") from None
    except FormatError:
        raise
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"not JSON: {error}") from None
    except ValueError:  # Python converts no integer of more than 4,300 digits
        raise FormatError("a number has too many digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise FormatError(f"JSON object has the key {repeated!r} twice")
    return mapping


def _refuse_constant(name: str) -> Any:
    raise FormatError(f'{name} is not JSON; write it as the string "{name}"')


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FormatError(f"number {digits[:32]} is out of range")
    return number
