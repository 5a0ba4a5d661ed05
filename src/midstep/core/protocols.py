"""Protocols between packages that do not import each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from midstep.core.moments import Moment


class Sink(Protocol):
    """Receives scalars and events from the controller. Both calls return quickly."""

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Record scalars of one step. A value is a number or a zero-dimensional tensor."""
        ...

    def event(self, moment: Moment, **fields: Any) -> None:
        """Record an event; it is written when this returns."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """An object whose state can be saved as plain data and loaded again."""

    def state_dict(self) -> dict[str, Any]:
        """The state: numbers, strings, tensors, and containers of these."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a result of `state_dict`."""
        ...
