"""What a rule finds, and who finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from midstep.control.conditions import StepView

__all__ = ["Finding", "Judge"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One layer, or the whole training, outside its limit."""

    value: float
    limit: float | None = None
    layer: str | None = None
    what: str = ""
    """Which tensor of the layer, in words."""
    key: str | None = None
    """Findings of one key are one finding that goes on; layer and tensor when left out."""


class Judge(Protocol):
    """Asked once a step; gives what is newly out of its limits."""

    def look(self, view: StepView) -> list[Finding]:
        """New findings; none while an old one goes on."""
        ...
