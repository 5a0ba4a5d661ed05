"""Follows the facts of a run in the process that writes them, without reading them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from midstep.facts.frames import Layout
from midstep.facts.lines import SCHEMA_VERSION, Line
from midstep.facts.tail import EventRecord, FactsTail, StepRows
from midstep.facts.told import ToldRecord
from midstep.facts.writer import FactsWriter

__all__ = ["OwnTail", "ToldRows"]

LIGHT_BYTES = 32 << 10
"""Some four thousand numbers."""


@dataclass(frozen=True, slots=True)
class ToldRows:
    """What `StepRows` are, in plain numbers: of the few rows of a moment they are ready sooner."""

    first_seq: int
    last_seq: int
    timeline: int
    step: Sequence[int]
    columns: Mapping[str, Sequence[float]]

    def part(self, start: int, stop: int) -> ToldRows:
        """The rows from `start` up to `stop`."""
        return ToldRows(
            first_seq=self.first_seq + start,
            last_seq=self.first_seq + stop - 1,
            timeline=self.timeline,
            step=self.step[start:stop],
            columns={name: values[start:stop] for name, values in self.columns.items()},
        )

    def listed(self) -> tuple[Sequence[int], Mapping[str, Sequence[float]]]:
        """Steps and columns."""
        return self.step, self.columns


class OwnTail:
    """What a `FactsTail` gives of the records from now on, told by the writer itself.

    Each call into the system beside a training hands the interpreter over and back; here there is
    none. What was not told, because too much waited or a signal came in between, is read from
    the disk, and so is everything from then on; likewise once the writer has closed.

    Args:
        writer: of this process.
    """

    def __init__(self, writer: FactsWriter) -> None:
        self._writer = writer
        self._disk: FactsTail | None = None
        self._told = writer.follow()
        self.last_seq = writer.seq  # read behind `follow`: what comes in between is told, and cut

    @property
    def is_light(self) -> bool:
        """Whether the next poll is a matter of a moment: no disk, and not much that waits."""
        return self._disk is None and self._told.waiting_bytes < LIGHT_BYTES

    def poll(self) -> Sequence[EventRecord | StepRows | ToldRows]:
        """New records in the order of their numbers; empty, and cheap, when there are none."""
        if self._disk is not None:
            return self._disk.poll()
        is_over = self._writer.is_closed  # before the last records are taken
        fresh = [record for record in self._told.take() if record.seq > self.last_seq]
        found: list[EventRecord | ToldRows] = []
        for stretch in _stretches(fresh):
            if stretch[0].seq != self.last_seq + 1:
                is_over = True
                break
            found += _as_facts(stretch)
            self.last_seq = stretch[-1].seq
        if is_over:
            self._writer.unfollow(self._told)
            run_dir, rank = self._writer.run_dir, self._writer.rank
            self._disk = FactsTail(run_dir, after_seq=self.last_seq, rank=rank, held=True)
        return found

    def close(self) -> None:
        """Follow no more."""
        self._writer.unfollow(self._told)
        if self._disk is not None:
            self._disk.close()


def _stretches(records: Iterable[ToldRecord]) -> Iterator[list[ToldRecord]]:
    """Records of one layout whose numbers follow each other."""
    for _, numbered in groupby(enumerate(records), key=_place):
        yield [record for _, record in numbered]


def _place(numbered: tuple[int, ToldRecord]) -> tuple[int, int]:
    index, record = numbered
    return record.seq - index, 0 if record.layout is None else record.layout.identity


def _as_facts(stretch: list[ToldRecord]) -> Iterator[EventRecord | ToldRows]:
    layout = stretch[0].layout
    if layout is not None:
        yield from _rows(layout, b"".join(record.data for record in stretch))
        return
    for seq, _, line in stretch:
        yield EventRecord(Line(seq, SCHEMA_VERSION, line.removesuffix(b"\n")))


def _rows(layout: Layout, frames: bytes) -> Iterator[ToldRows]:
    """Rows whose numbers follow each other, cut where the timeline changes."""
    timelines, seqs, steps, *values = layout.columns(frames)
    columns = dict(zip(layout.names, values, strict=True))
    whole = ToldRows(seqs[0], seqs[-1], timelines[0], steps, columns)
    if timelines.count(timelines[0]) == len(timelines):  # nearly always
        yield whole
        return
    start = 0
    for timeline, same in groupby(timelines):
        stop = start + len(list(same))
        yield replace(whole.part(start, stop), timeline=timeline)
        start = stop
