"""Fields of a record that a viewer token may not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.moments import Moment

PRIVATE = frozenset({"argv", "cwd"})
"""Fields of a header record: a command line may contain a secret, a folder its owner's name."""


def has_private(moment: str) -> bool:
    """Whether records of this moment may have private fields."""
    return moment == Moment.START


def redact(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without its private fields.

    >>> redact({"moment": "on_start", "seed": 1, "cwd": "/home/ada"})
    {'moment': 'on_start', 'seed': 1}
    """
    if not has_private(str(record.get("moment"))):
        return dict(record)
    return {name: value for name, value in record.items() if name not in PRIVATE}
