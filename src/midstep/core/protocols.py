"""Protocols between packages that do not import each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from midstep.core.moments import Moment


class Sink(Protocol):
    """Receives scalars and events from the controller; a `FactsWriter` is one.

    The training thread makes both calls between two steps, so they must return quickly.
    """

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Record values of one step: numbers, tensors of one element, or a `MediaValue`."""

    def event(self, moment: Moment, **fields: Any) -> object:
        """Record an event; it is written when this returns. The result is not used."""


@runtime_checkable
class Stateful(Protocol):
    """An object whose state can be saved as plain data and loaded again."""

    def state_dict(self) -> dict[str, Any]:
        """The state: numbers, strings, tensors, and containers of these."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a result of `state_dict`."""
