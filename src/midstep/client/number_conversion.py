"""Turns the strings for NaN and the infinities in a response into floats, by its schema.

Strict JSON has no NaN, so the server sends three strings instead. Whether a string is a number or
text follows from the field: `number_paths` lists the fields of numbers for each route. Values
without a schema come with a list of JSON pointers, `nonfinite`.
"""

from __future__ import annotations

from typing import Any

from midstep.client.number_paths import NUMBER_PATHS

_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_SHORT_PREFIX, _RUN_PREFIX = ["", "debug"], ["", "api", "v1", "runs", "{run_id}", "debug"]
_ROUTES = {
    tuple(route.split("/")): paths
    # A literal segment comes before a placeholder: `step_data/force_detail`, then `{key}`.
    for route, paths in sorted(NUMBER_PATHS.items(), key=lambda item: item[0].count("{"))
}


def convert_numbers(method: str, path: str, response: Any) -> Any:
    """Return the response of a route with its numbers as floats; changes it in place.

    >>> convert_numbers("GET", "/debug/state", {"loss": "Infinity", "reason": "NaN"})
    {'loss': inf, 'reason': 'NaN'}
    """
    segments = path.partition("?")[0].split("/")
    if segments[:2] == _SHORT_PREFIX:
        segments = [*_RUN_PREFIX, *segments[2:]]
    segments[0] = f"{method} "
    for route, paths in _ROUTES.items():
        if len(route) == len(segments) and all(map(_matches, route, segments)):
            for each in paths:
                response = _convert_path(response, each.split("/")[1:])
            break
    return response


def _matches(expected: str, segment: str) -> bool:
    return expected == segment or expected.startswith("{")


def _convert_path(value: Any, names: list[str]) -> Any:
    """Convert what lies below these names; `*` is every item of a list or value of an object."""
    if not names:
        return _FLOATS.get(value, value) if isinstance(value, str) else value
    name, *rest = names
    if isinstance(value, list):
        if name == "*":
            value[:] = [_convert_path(item, rest) for item in value]
    elif isinstance(value, dict):
        if name == "nonfinite":
            for pointer in value.get(name, ()):
                _convert_pointer(value, pointer.split("/")[1:])
            return value
        for key in list(value) if name == "*" else [name]:
            if key in value:
                value[key] = _convert_path(value[key], rest)
    return value


def _convert_pointer(value: Any, keys: list[str]) -> Any:
    """Convert the number at a JSON pointer (RFC 6901), or every number of the array there."""
    if not keys:
        return _convert_all(value)
    key = keys[0].replace("~1", "/").replace("~0", "~")
    index = int(key) if isinstance(value, list) else key
    value[index] = _convert_pointer(value[index], keys[1:])
    return value


def _convert_all(value: Any) -> Any:
    if isinstance(value, list):
        return [_convert_all(item) for item in value]
    return _FLOATS.get(value, value) if isinstance(value, str) else value
