"""Looks at odd values one by one: what can be kept is, what cannot is said once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from midstep.facts.frames import MAXIMUM_NAMES
from midstep.facts.ledger import LONGEST_NAME
from midstep.facts.numbers import Deferred, NotANumberError, as_scalar

__all__ = ["Scrutiny"]

MOST_NOTES = 256


class Scrutiny:
    """Checks steps, names and values that did not go through at once.

    Args:
        note: records that something was refused: its name and the reason.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._record = note
        self._noted: set[str] = set()

    def step(self, step: Any) -> int | None:
        """`step` as an integer of 64 bits; None, and a note, when it is none."""
        try:
            number = operator.index(step) if hasattr(step, "__index__") else int(step)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            number = 2**63
        if -(2**63) <= number < 2**63:
            return number
        self._note("step", f"{str(step)[:64]} is no step number")
        return None

    def scalars(self, values: Mapping[str, Any]) -> dict[str, float | Deferred]:
        """What of `values` can be written, under names that can be."""
        kept: dict[str, float | Deferred] = {}
        for name, value in values.items():
            if len(kept) == MAXIMUM_NAMES:
                self._note("names", f"more than {MAXIMUM_NAMES} names in one row")
                break
            text = str(name).encode("utf-8", "backslashreplace").decode()
            if len(text) > LONGEST_NAME:
                self._note(text[:64], f"a name of {len(text)} characters is too long")
                continue
            try:
                kept[text] = as_scalar(value)
            except NotANumberError as error:
                self._note(text[:64], str(error))
        return kept

    def _note(self, name: str, reason: str) -> None:
        """Say once for each name what was refused."""
        if name not in self._noted and len(self._noted) < MOST_NOTES:
            self._noted.add(name)
            self._record(name, reason)
