"""Replaces functions of libraries, and puts them back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced, in the order in which it is put back.

    >>> class Lamp:
    ...     def light(self):
    ...         return "on"
    >>> patches = Patches()
    >>> patches.replace(Lamp, "light", lambda usual: lambda lamp: usual(lamp).upper())
    >>> bright = Lamp().light()
    >>> patches.undo()
    >>> bright, Lamp().light()
    ('ON', 'on')
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Any]) -> None:
        """Replace a function by what `wrap` makes of it; a missing one is left out."""
        usual = getattr(owner, name, None)
        if usual is None:
            return
        changed = functools.update_wrapper(wrap(usual), usual)
        setattr(owner, name, changed)

        def put_back() -> None:
            if getattr(owner, name, None) is changed:  # not if somebody else replaced ours
                setattr(owner, name, usual)

        self._undo.append(put_back)

    def call_at_undo(self, undo: Callable[[], object]) -> None:
        """Call this too when the patches are undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put back everything; a second call changes nothing."""
        while self._undo:
            self._undo.pop()()
