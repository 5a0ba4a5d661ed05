"""Timelines: every rewind of a run begins a new one.

Rows of the timeline that was left stay in the files. Usually the row of the highest timeline counts
for each step. A `TimelinePath` selects the rows of one timeline, as the run was then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.core.moments import Moment


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """One rewind of a run."""

    timeline: int
    """The timeline that began with it."""
    parent: int
    """The timeline that was left."""
    step: int
    """Finished steps it went back to."""
    from_step: int
    """Finished steps it came from."""


@dataclass(frozen=True, kw_only=True)
class TimelinePath:
    """Which rows belong to a timeline: all of its own, and of each earlier one up to a step."""

    limits: Mapping[int, int | None]
    """For each timeline on the path the last step that counts; None for all steps."""


def find_rewinds(events: Iterable[Mapping[str, Any]]) -> list[Rewind]:
    """The rewinds among the events of a run, oldest first; a record without numbers is none."""
    rewinds = []
    for event in events:
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "rewind":
            timeline = event["timeline"]
            parent, step, from_step = (
                event.get(name, timeline - 1 if name == "parent" else None)
                for name in ("parent", "step", "from_step")
            )
            if isinstance(parent, int) and isinstance(step, int) and isinstance(from_step, int):
                rewinds.append(
                    Rewind(timeline=timeline, parent=parent, step=step, from_step=from_step)
                )
    return rewinds


def path_of(timeline: int, rewinds: Iterable[Rewind]) -> TimelinePath:
    """The path to a timeline: which steps of which earlier timelines belong to it.

    >>> first = Rewind(timeline=1, parent=0, step=50, from_step=100)
    >>> second = Rewind(timeline=2, parent=1, step=30, from_step=60)
    >>> dict(path_of(2, [first, second]).limits)
    {2: None, 1: 30, 0: 30}
    """
    by_timeline = {rewind.timeline: rewind for rewind in rewinds}
    limits: dict[int, int | None] = {timeline: None}
    at, last = timeline, None
    # A parent is always older. The comparison ends the loop also for a damaged record.
    while (rewind := by_timeline.get(at)) is not None and rewind.parent < at:
        # A later rewind may go back further than this one: then fewer steps of the parent count.
        last = rewind.step if last is None else min(last, rewind.step)
        at = rewind.parent
        limits[at] = last
    return TimelinePath(limits=limits)
