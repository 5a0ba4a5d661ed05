"""Timelines: what a run was before and after each time it was taken back.

Every rewind begins a timeline. Rows of the abandoned one stay in the files. Usually the row of the
highest timeline counts for each step; a `TimelinePath` shows one timeline as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.core.moments import Moment

__all__ = ["Rewind", "TimelinePath", "find_rewinds", "path_of"]


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """One time that a run was taken back."""

    timeline: int
    """The one that began with it."""
    parent: int
    """The one that was left."""
    step: int
    """Finished steps it went back to."""
    from_step: int
    """Finished steps it came from."""


@dataclass(frozen=True, kw_only=True)
class TimelinePath:
    """Which rows belong to a timeline: of itself all, of each one before it up to a step."""

    limits: Mapping[int, int | None]
    """By timeline, the last step that belongs to it; None: all."""

    @property
    def timeline(self) -> int:
        """The one it leads to."""
        return max(self.limits)

    def has(self, timeline: int, step: int) -> bool:
        """Whether a row belongs to it."""
        if timeline not in self.limits:
            return False
        limit = self.limits[timeline]
        return limit is None or step <= limit


def find_rewinds(events: Iterable[Mapping[str, Any]]) -> list[Rewind]:
    """The rewinds among the events of a run, oldest first."""
    return [
        Rewind(
            timeline=int(event["timeline"]),
            parent=int(event.get("parent", int(event["timeline"]) - 1)),
            step=int(event["step"]),
            from_step=int(event["from_step"]),
        )
        for event in events
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "rewind"
    ]


def path_of(timeline: int, rewinds: Iterable[Rewind]) -> TimelinePath:
    """How a timeline came about: from which step of which others.

    >>> first = Rewind(timeline=1, parent=0, step=50, from_step=100)
    >>> second = Rewind(timeline=2, parent=1, step=30, from_step=60)
    >>> dict(path_of(2, [first, second]).limits)
    {2: None, 1: 30, 0: 30}
    """
    by_timeline = {rewind.timeline: rewind for rewind in rewinds}
    limits: dict[int, int | None] = {timeline: None}
    at, last = timeline, None
    while (rewind := by_timeline.get(at)) is not None and rewind.parent < at:
        last = rewind.step if last is None else min(last, rewind.step)
        at = rewind.parent
        limits[at] = last
    return TimelinePath(limits=limits)
