"""Timelines: every rewind of a run begins a new one.

Rows of the timeline that was left stay in the files. A `TimelinePath` selects the rows of one
timeline, as the run was then; usually those of the present timeline count, see `CurrentTimeline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstep.core.moments import Moment
from midstep.facts.format.event_lines import SCHEMA_VERSION
from midstep.facts.format.paths import events_path
from midstep.facts.format.scanners import EventsScanner


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


class CurrentTimeline:
    """Follows the rewinds in the events of a run, and knows which rows count now.

    Args:
        run_dir: the run directory.
    """

    def __init__(self, run_dir: str | Path) -> None:
        self._events = events_path(run_dir, 0, 0)  # only rank 0 records rewinds
        self._scanner = EventsScanner(self._events)
        self._file: int | None = None
        self._rewinds: dict[int, Rewind] = {}
        self.path: TimelinePath | None = None
        """The path to the present timeline; None before the first rewind."""

    @property
    def number(self) -> int:
        """The present timeline, which may have no row yet."""
        return max(self._rewinds, default=0)

    def refresh(self) -> None:
        """Read the events that were written since the last call."""
        try:
            file = self._events.lstat()
        except OSError:
            return  # no event was written yet
        if file.st_ino != self._file or file.st_size < self._scanner.offset:
            self._file, self._scanner = file.st_ino, EventsScanner(self._events)
        before = self.number
        records = [
            line.record()
            for line in self._scanner.read()
            if b'"rewind"' in line.raw and line.version == SCHEMA_VERSION
        ]
        self._rewinds |= {each.timeline: each for each in find_rewinds(records)}
        if self.number != before:
            self.path = path_of(self.number, self._rewinds.values())
