"""Fields of a record that a viewer token may not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.moments import Moment

PRIVATE: Mapping[str, frozenset[str]] = {
    Moment.START: frozenset({"argv", "cwd"}),
    Moment.EXCEPTION: frozenset({"traceback"}),
}
"""Private fields by moment. A command line may contain a secret, a folder its owner's name, and the
source lines and messages of a traceback any value of the program. The error itself is the reason of
the end."""


def has_private(moment: str) -> bool:
    """Whether records of this moment may have private fields."""
    return moment in PRIVATE


def redact(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without its private fields.

    >>> redact({"moment": "on_start", "seed": 1, "cwd": "/home/ada"})
    {'moment': 'on_start', 'seed': 1}
    """
    private = PRIVATE.get(str(record.get("moment")), frozenset())
    return {name: value for name, value in record.items() if name not in private}
