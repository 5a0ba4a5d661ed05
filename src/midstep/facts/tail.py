"""Follows the facts of a run as they are written, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstep.facts.columns import RowGroup, Rows
from midstep.facts.files import FactsFiles
from midstep.facts.lines import Line

__all__ = ["EventRecord", "FactsTail", "StepRows"]


class EventRecord:
    """One event, parsed when somebody asks for its record."""

    __slots__ = ("_line", "_record", "moment", "timeline")

    def __init__(self, line: Line) -> None:
        self._line = line
        self._record: dict[str, Any] | None = None
        self.moment, self.timeline = line.place()

    @property
    def seq(self) -> int:
        """Its number."""
        return self._line.seq

    @property
    def last_seq(self) -> int:
        """The same as `seq`; rows have a range."""
        return self._line.seq

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
    """Rows with the same names, one behind the other in number; the arrays are read-only."""

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
            first_seq=self.first_seq + start,
            last_seq=self.first_seq + stop - 1,
            timeline=self.timeline,
            step=self.step[start:stop],
            columns={name: values[start:stop] for name, values in self.columns.items()},
            wall=self.wall[start:stop],
        )

    def listed(self) -> tuple[list[int], dict[str, list[float]]]:
        """Steps and columns as plain numbers."""
        return self.step.tolist(), {name: held.tolist() for name, held in self.columns.items()}


class FactsTail:
    """What is new in a run's facts, poll by poll, each record once and in order.

    Args:
        run_dir: the run directory.
        after_seq: skip records up to this number.
        rank: whose facts.
        held: keep the files open until `close`, for whoever polls many times a second.
    """

    is_light = False
    """Whether the next poll is a matter of a moment; one that meets a disk may not be."""

    def __init__(
        self, run_dir: str | Path, *, after_seq: int = 0, rank: int = 0, held: bool = False
    ) -> None:
        self._files = FactsFiles(run_dir, rank=rank, held=held)
        self._held: list[EventRecord | StepRows] = []
        self._gaps: list[str] = []
        self.last_seq = after_seq

    @property
    def problems(self) -> list[str]:
        """Gaps, damage and unknown versions met so far."""
        return [*self._files.problems, *self._gaps]

    def poll(self) -> list[EventRecord | StepRows]:
        """New records in the order of their numbers; empty, and cheap, when there are none."""
        if not self._read_new() and not self._held:
            return []
        seen = max(item.last_seq for item in self._held)
        if self._gap_at() is not None:
            # The other file was read before the missing record was written; by now it is there,
            # since a number is written before the next one is.
            self._read_new(anew=True)
        held = sorted(self._held, key=lambda item: item.seq)
        # What the second look found beyond the first may have gaps of its own: it waits.
        self._held = [item for item in held if item.seq > seen]
        return list(self._in_order([item for item in held if item.seq <= seen]))

    def _in_order(self, items: list[EventRecord | StepRows]) -> Iterator[EventRecord | StepRows]:
        for found in items:
            if found.last_seq <= self.last_seq:
                continue
            item = found
            if item.seq <= self.last_seq and isinstance(item, StepRows):
                item = item.part(self.last_seq + 1 - item.first_seq, len(item.step))
            if item.seq > self.last_seq + 1:
                self._gaps.append(
                    f"records {self.last_seq + 1} to {item.seq - 1} are missing "
                    "(damaged, or lost in a power cut)"
                )
            self.last_seq = item.last_seq
            yield item

    def _gap_at(self) -> int | None:
        expected = self.last_seq + 1
        for item in sorted(self._held, key=lambda item: item.seq):
            if item.seq > expected:
                return expected
            expected = max(expected, item.last_seq + 1)
        return None

    def close(self) -> None:
        """Let the files go, where they are held open; a further poll opens them again."""
        self._files.close()

    def _read_new(self, *, anew: bool = False) -> bool:
        """Hold what the files have beyond the last time; False when nothing changed."""
        before = len(self._held)
        self._files.find(anew=anew)
        for line in self._files.new_lines():
            if line.seq > self.last_seq:
                self._held.append(EventRecord(line))
        for file in self._files.changed_steps():
            for run in file.runs():
                self._held.extend(_split(run, self.last_seq))
        return len(self._held) > before


def _split(run: RowGroup, after_seq: int) -> Iterator[StepRows]:
    """Rows behind `after_seq`, cut where the timeline changes or the numbers jump."""
    rows = run.rows
    if int(rows["seq"][-1]) <= after_seq:
        return
    for start, stop in pairwise(_edges(rows)):
        part = rows[start:stop]
        yield StepRows(
            first_seq=int(part["seq"][0]),
            last_seq=int(part["seq"][-1]),
            timeline=int(part["timeline"][0]),
            step=part["step"],
            columns={name: part["values"][:, i] for i, name in enumerate(run.names)},
            wall=part["wall"],
        )


def _edges(rows: Rows) -> list[int]:
    """Where to cut, both ends included; most stretches are whole, and many a single row."""
    if len(rows) == 1:
        return [0, 1]
    seq, timeline = rows["seq"], rows["timeline"]
    jumps = (seq[1:] != seq[:-1] + 1) | (timeline[1:] != timeline[:-1])
    return [0, *(np.flatnonzero(jumps) + 1).tolist(), len(rows)]
