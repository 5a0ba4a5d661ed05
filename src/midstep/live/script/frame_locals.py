"""Reads the local variables of a function that is running, and leaves `locals()` as it was."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

_WORDS = 8
"""Of the interpreter's own frame; its globals, builtins and locals come within these, in a row."""


@contextmanager
def unchanged_locals(frame: FrameType) -> Iterator[Mapping[str, Any]]:
    """The local variables of a function, for the block.

    Up to Python 3.12 `frame.f_locals` is a dict that the frame keeps, and the one that `locals()`
    of the function returned: `settings = locals()` would get new entries by being read, and the
    frame would keep every batch alive.
    """
    kept = _kept_locals(frame)
    before = None if kept is None else dict(kept)
    variables = frame.f_locals
    try:
        yield variables
    finally:
        if type(variables) is dict:
            variables.clear()
            variables.update(before or {})


def _kept_locals(frame: FrameType) -> dict[str, Any] | None:
    """The dict that `locals()` has returned in this function; None without one.

    Python gives no way to it that does not fill it first, so the interpreter's frame is read.
    From Python 3.13 on there is no such dict.
    """
    if sys.version_info >= (3, 13):
        return None
    size = ctypes.sizeof(ctypes.c_void_p)

    def word_at(address: int) -> int | None:
        return ctypes.c_void_p.from_address(address).value

    # A frame object holds, after the head of any object, the frame before and the inner one.
    inner = word_at(id(frame) + object.__basicsize__ + size)
    words = [] if inner is None else [word_at(inner + size * index) for index in range(_WORDS)]
    for index in range(len(words) - 2):
        if words[index : index + 2] == [id(frame.f_globals), id(frame.f_builtins)]:
            kept = words[index + 2]
            return ctypes.cast(kept, ctypes.py_object).value if kept else None
    return None
