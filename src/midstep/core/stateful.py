"""What can be saved and put back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Anything whose state can be taken out as plain data and put back."""

    def state_dict(self) -> dict[str, Any]:
        """The state: numbers, strings, tensors, and containers of these."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        ...
