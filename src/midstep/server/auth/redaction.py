"""What of a record only those who control a run are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.moments import Moment

PRIVATE = frozenset({"argv", "cwd"})
"""Of a header record: a command line may hold a secret, a folder names its owner."""


def has_private(moment: str) -> bool:
    """Whether records of this moment may hold anything of the kind."""
    return moment == Moment.START


def redact(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as somebody who only looks may see it.

    >>> redact({"moment": "on_start", "seed": 1, "cwd": "/home/ada"})
    {'moment': 'on_start', 'seed': 1}
    """
    if not has_private(str(record.get("moment"))):
        return dict(record)
    return {name: value for name, value in record.items() if name not in PRIVATE}
