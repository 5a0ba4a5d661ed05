"""Strict check of request bodies: refuse what Python's JSON accepts but no field can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.server.problems import Refusal

MAX_BODY_DEPTH = 32
"""No request is nested deeper than a few levels. The bound protects later code, which recurses."""


def check_body(body: bytes) -> None:
    """Refuse a body that is not strict JSON. An empty body is allowed.

    >>> check_body(b'{"n": 1}')
    >>> check_body(b'{"n": 1, "n": 2}')
    Traceback (most recent call last):
    midstep.server.problems.Refusal: JSON object has the key 'n' twice
    """
    if not body:
        return
    try:
        value = strict_json.loads(body.decode("utf-8"))
    except FormatError as error:
        _refuse_non_finite(body)
        raise Refusal(400, "json", str(error)) from None
    except UnicodeDecodeError:
        raise Refusal(400, "json", "the body is not UTF-8") from None
    except ValueError:
        # Python refuses to convert integers of more than 4,300 digits.
        raise Refusal(400, "json", "a number has too many digits") from None
    _check_values(value)
    _refuse_numbers(value, _is_too_large, "expected a number of at most 18 digits")


def _check_values(value: Any) -> None:
    """Refuse deep nesting and strings that are not valid Unicode."""
    # A loop, not recursion: the caller chooses the depth.
    level = [value]
    for _ in range(MAX_BODY_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str) and not _is_unicode(item):
                raise Refusal(400, "json", "a string has a lone surrogate, so it is not Unicode")
            if isinstance(item, dict):
                deeper.extend(item)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level = deeper
    if level:
        raise Refusal(400, "json", f"JSON is nested deeper than {MAX_BODY_DEPTH} levels")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_non_finite(body: bytes) -> None:
    """For NaN or an infinity, name the field (422): the caller meant to send a number there."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    _refuse_numbers(value, _is_not_finite, "expected a finite number")


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_too_large(value: Any) -> bool:
    """Whether an integer is too large for the numbers of numpy, torch and files."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _refuse_numbers(value: Any, is_wrong: Callable[[Any], bool], expected: str) -> None:
    path = _find(value, is_wrong, "")
    if path is not None:
        # A key may contain a lone surrogate, which the response could not encode.
        field = path.encode("utf-8", "replace").decode()[:128] or None
        raise Refusal(422, "invalid", f"{field or 'the body'}: {expected}", field=field)


def _find(value: Any, is_wrong: Callable[[Any], bool], path: str, depth: int = 0) -> str | None:
    """The dotted path of the first value that is wrong."""
    if is_wrong(value):
        return path
    if depth > MAX_BODY_DEPTH or not isinstance(value, dict | list):
        return None
    items = value.items() if isinstance(value, dict) else enumerate(value)
    paths = (_find(item, is_wrong, f"{path}.{key}".lstrip("."), depth + 1) for key, item in items)
    return next((each for each in paths if each is not None), None)
