"""Follows the files of a run: new records in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from midstep.facts.format.event_lines import EventLine
from midstep.facts.format.step_frames import CHECKSUM_NAMES
from midstep.facts.read.fact_files import FactsFiles
from midstep.facts.read.step_columns import RowGroup, Rows


class EventRecord:
    """One event; its JSON is parsed when `record` is first used."""

    __slots__ = ("_line", "_record", "last_seq", "moment", "seq", "timeline")

    def __init__(self, line: EventLine) -> None:
        self._line = line
        self._record: dict[str, Any] | None = None
        self.seq = self.last_seq = line.seq
        """Its number, under both names: `StepRows` has a range of numbers."""
        self.moment, self.timeline = line.moment_and_timeline()

    @property
    def record(self) -> dict[str, Any]:
        """Its fields."""
        if self._record is None:
            self._record = self._line.record()
        return self._record

    def json(self) -> bytes:
        """Its fields as JSON."""
        return self._line.json()


@dataclass(frozen=True, slots=True)
class StepRows:
    """Rows with the same names and consecutive numbers. The arrays are read-only."""

    first_seq: int
    last_seq: int
    timeline: int
    step: npt.NDArray[np.int64]
    columns: dict[str, npt.NDArray[np.float64]]
    wall: npt.NDArray[np.float64]

    @property
    def seq(self) -> int:
        """The first number."""
        return self.first_seq

    def part(self, start: int, stop: int) -> StepRows:
        """The rows from `start` up to `stop`."""
        return StepRows(
            first_seq=self.first_seq + start,  # numbers in it have no gap
            last_seq=self.first_seq + stop - 1,
            timeline=self.timeline,
            step=self.step[start:stop],
            columns={name: values[start:stop] for name, values in self.columns.items()},
            wall=self.wall[start:stop],
        )

    def listed(self) -> tuple[list[int], dict[str, list[float]]]:
        """Steps and columns as Python numbers."""
        return self.step.tolist(), {name: values.tolist() for name, values in self.columns.items()}


class NumberRange(NamedTuple):
    """The numbers of records that nobody needs, without the records."""

    first_seq: int
    last_seq: int
    timeline: int

    @property
    def seq(self) -> int:
        """The first number."""
        return self.first_seq

    def part(self, start: int, stop: int) -> NumberRange:
        """The numbers from `start` up to `stop`."""
        return NumberRange(self.first_seq + start, self.first_seq + stop - 1, self.timeline)


Item = EventRecord | StepRows | NumberRange


class FactsTail:
    """Polls the facts of a run for new records; gives each record once and in order.

    Args:
        run_dir: the run directory.
        after_seq: skip records up to this number.
        rank: whose facts.
        held: keep the files open until `close`, for readers that poll many times a second.
    """

    is_cheap = False
    """Whether the next poll is certainly short; one that reads a disk may not be."""

    def __init__(
        self, run_dir: str | Path, *, after_seq: int = 0, rank: int = 0, held: bool = False
    ) -> None:
        self._files = FactsFiles(run_dir, rank=rank, held=held)
        self._pending: list[Item] = []
        self._keeps_records = True
        self._gaps: list[str] = []
        self.last_seq = after_seq

    @property
    def problems(self) -> list[str]:
        """Gaps, damage and unknown versions so far."""
        return [*self._files.problems, *self._gaps]

    def poll(self) -> list[EventRecord | StepRows]:
        """New records in the order of their numbers; cheap if there are none."""
        return [item for item in self._take_new() if not isinstance(item, NumberRange)]

    def advance(self) -> int:
        """Read to the end and keep no record; gives the highest timeline of the new ones.

        For files of any size: `poll` would put all of their records into memory.
        """
        self._keeps_records = False
        try:
            return max((item.timeline for item in self._take_new()), default=0)
        finally:
            self._keeps_records = True

    def _take_new(self) -> list[Item]:
        if not self._read_new() and not self._pending:
            return []
        newest = max(item.last_seq for item in self._pending)
        if self._has_gap():
            # The missing record was written to the first file after that file was read. It is
            # there by now, since numbers are written in order, so both files are read again.
            self._read_new(force=True)
        pending = sorted(self._pending, key=lambda item: item.seq)
        # Records newer than the first read may have gaps of their own, so they wait.
        self._pending = [item for item in pending if item.seq > newest]
        return list(self._in_order([item for item in pending if item.seq <= newest]))

    def _in_order(self, items: list[Item]) -> Iterator[Item]:
        for record in items:
            if record.last_seq <= self.last_seq:  # read again after a file was replaced
                continue
            item = record
            if item.seq <= self.last_seq and not isinstance(item, EventRecord):
                numbers = item.last_seq - item.first_seq + 1
                item = item.part(self.last_seq + 1 - item.first_seq, numbers)
            if item.seq > self.last_seq + 1:
                self._gaps.append(
                    f"records {self.last_seq + 1} to {item.seq - 1} are missing "
                    "(damaged, or lost in a power cut)"
                )
            self.last_seq = item.last_seq
            yield item

    def _has_gap(self) -> bool:
        expected = self.last_seq + 1
        for item in sorted(self._pending, key=lambda item: item.seq):
            if item.seq > expected:
                return True
            expected = max(expected, item.last_seq + 1)
        return False

    def close(self) -> None:
        """Close the files if they are held open; the next poll opens them again."""
        self._files.close()

    def _read_new(self, *, force: bool = False) -> bool:
        """Collect new records of the files; False if there are none."""
        has_new = False
        self._files.rescan(force=force)
        for line in self._files.new_lines():
            if line.seq > self.last_seq:
                self._hold(EventRecord(line))
                has_new = True
        for file in self._files.changed_steps():
            for run in file.runs():
                for rows in _split(run, self.last_seq):
                    self._hold(rows)
                    has_new = True
        return has_new

    def _hold(self, item: EventRecord | StepRows) -> None:
        if self._keeps_records:
            self._pending.append(item)
            return
        last = self._pending[-1] if self._pending else None
        before = (item.seq - 1, item.timeline)
        if isinstance(last, NumberRange) and (last.last_seq, last.timeline) == before:
            self._pending[-1] = last._replace(last_seq=item.last_seq)
        else:
            self._pending.append(NumberRange(item.seq, item.last_seq, item.timeline))


def _split(group: RowGroup, after_seq: int) -> Iterator[StepRows]:
    """Rows after `after_seq`, cut where the timeline changes or a number is missing."""
    rows = group.rows
    if int(rows["seq"][-1]) <= after_seq:
        return
    for start, stop in pairwise(_edges(rows)):
        part = rows[start:stop]
        yield StepRows(
            first_seq=int(part["seq"][0]),
            last_seq=int(part["seq"][-1]),
            timeline=int(part["timeline"][0]),
            step=part["step"],
            columns={
                name: part["values"][:, i]
                for i, name in enumerate(group.names)
                if name not in CHECKSUM_NAMES
            },
            wall=part["wall"],
        )


def _edges(rows: Rows) -> list[int]:
    """Where to cut, both ends included. Most groups need no cut, and many are a single row."""
    if len(rows) == 1:
        return [0, 1]
    seq, timeline = rows["seq"], rows["timeline"]
    jumps = (seq[1:] != seq[:-1] + 1) | (timeline[1:] != timeline[:-1])
    return [0, *(np.flatnonzero(jumps) + 1).tolist(), len(rows)]
