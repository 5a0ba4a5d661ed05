"""Wire types of going back: what may be asked, and how far back one can go."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt, model_validator

from midstep.server.models import Out, Verb

__all__ = ["BackVerb", "RewindOut"]


class BackVerb(Verb):
    """How far to go back: n steps, or to a step; one step when nothing is said."""

    n: Annotated[StrictInt, Field(ge=1, le=1_000_000_000)] | None = None
    step: Annotated[StrictInt, Field(ge=0, le=10**15)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> BackVerb:
        if self.n is not None and self.step is not None:
            raise ValueError("give n or step, not both")
        return self


class RewindOut(Out):
    """How far back one can go, and what that takes."""

    available: bool
    """Whether there is a step to go back to."""
    reason: str | None
    """Why not, where there is none."""
    first_step: int | None
    """The oldest step that can be reached."""
    step: int
    """Where the run stands."""
    snapshot_steps: list[int]
    """Steps that are reached at once; others by repeating the steps behind the one before."""
    bytes: int
    """Host memory that the snapshots take."""
    budget_bytes: int
    """The most they may take."""
    replay_cost_s: float | None
    """About how long going back takes at most; None before it is known."""
    timeline: int
    """How often the run was taken back."""
