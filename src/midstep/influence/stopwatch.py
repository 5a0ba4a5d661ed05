"""Time by phase, when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

__all__ = ["Stopwatch", "unwatched"]

Stopwatch = Callable[[str], AbstractContextManager[object]]
"""Called with the name of a phase; the phase lasts as long as the `with` block."""


def unwatched(_: str) -> AbstractContextManager[object]:
    """No measuring: what is used unless another stopwatch is given."""
    return nullcontext()
