"""What of a record only those who control a run are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.moments import Moment

__all__ = ["without_private"]

PRIVATE = frozenset({"argv", "cwd"})
"""Of a header record: a command line may hold a secret, a folder names its owner."""


def without_private(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as somebody who only looks may see it.

    >>> without_private({"moment": "on_start", "seed": 1, "cwd": "/home/ada"})
    {'moment': 'on_start', 'seed': 1}
    """
    if record.get("moment") != Moment.START:
        return dict(record)
    return {name: value for name, value in record.items() if name not in PRIVATE}
