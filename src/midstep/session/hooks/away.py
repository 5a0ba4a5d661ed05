"""A pass of our own through the model, at which hooks do not look."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_looking_away", "looking_away"]

_state = threading.local()


@contextmanager
def looking_away() -> Iterator[None]:
    """Hooks see nothing of what this thread does in the block.

    >>> with looking_away():
    ...     is_looking_away()
    True
    """
    before = is_looking_away()
    _state.away = True
    try:
        yield
    finally:
        _state.away = before


def is_looking_away() -> bool:
    """Whether this thread is in such a block."""
    return getattr(_state, "away", False)
