"""Strict reading of request bodies: what JSON lets pass but no field of ours can mean."""

from __future__ import annotations

import json
import math
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.server.problems import Refusal

MAX_BODY_DEPTH = 32
"""Nothing we take is nested deeper than a few levels."""


def check_body(body: bytes) -> None:
    """Refuse a body that is not strict JSON; an empty one is fine.

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
        _name_the_field(body)
        raise Refusal(400, "json", str(error)) from None
    except UnicodeDecodeError:
        raise Refusal(400, "json", "the body is not UTF-8") from None
    except ValueError:
        # Python refuses to convert integers of more than 4,300 digits.
        raise Refusal(400, "json", "a number has too many digits") from None
    _check_values(value)


def _check_values(value: Any) -> None:
    """Refuse deep nesting and strings that are no text; a loop, since the depth is theirs."""
    level = [value]
    for _ in range(MAX_BODY_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str) and not _writable(item):
                raise Refusal(400, "json", "a string holds a lone surrogate, which is not text")
            if isinstance(item, dict):
                deeper.extend(item)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level = deeper
    if level:
        raise Refusal(400, "json", f"JSON is nested deeper than {MAX_BODY_DEPTH} levels")


def _writable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _name_the_field(body: bytes) -> None:
    """A NaN or an infinity is told as a wrong field: the person meant a number."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    place = _non_finite(value, "")
    if place is not None:
        # A key may hold what cannot be written back; the refusal must not fail on it.
        field = place.encode("utf-8", "replace").decode()[:128] or None
        message = f"{field or 'the body'}: expected a finite number"
        raise Refusal(422, "invalid", message, field=field)


def _non_finite(value: Any, place: str, depth: int = 0) -> str | None:
    """The dotted place of the first NaN or infinity."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    if depth > MAX_BODY_DEPTH or not isinstance(value, dict | list):
        return None
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = (_non_finite(item, f"{place}.{key}".lstrip("."), depth + 1) for key, item in items)
    return next((each for each in found if each is not None), None)
