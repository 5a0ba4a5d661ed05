"""Follows the writer of this process: new records from memory, without reading the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from midstep.facts.format.event_lines import SCHEMA_VERSION, EventLine
from midstep.facts.format.step_frames import CHECKSUM_NAMES, Layout
from midstep.facts.read.tail import EventRecord, FactsTail, StepRows
from midstep.facts.write.record_files import WrittenRecord
from midstep.facts.write.writer import FactsWriter

CHEAP_BYTES = 32 << 10
"""Bytes in the queue up to which a poll is short: about four thousand numbers."""


@dataclass(frozen=True, slots=True)
class LiveRows:
    """`StepRows` as Python numbers: for a few rows they are faster to make than arrays."""

    first_seq: int
    last_seq: int
    timeline: int
    step: Sequence[int]
    columns: Mapping[str, Sequence[float]]

    def part(self, start: int, stop: int) -> LiveRows:
        """The rows from `start` up to `stop`."""
        return LiveRows(
            first_seq=self.first_seq + start,
            last_seq=self.first_seq + stop - 1,
            timeline=self.timeline,
            step=self.step[start:stop],
            columns={name: values[start:stop] for name, values in self.columns.items()},
        )

    def listed(self) -> tuple[Sequence[int], Mapping[str, Sequence[float]]]:
        """Steps and columns."""
        return self.step, self.columns


class LiveTail:
    """The records that a `FactsTail` gives from now on, taken from the queue of the writer.

    A poll makes no system call: each call would release the interpreter lock, and wait for the busy
    training to give it back. If a record is missing in the queue (it was full, or a signal
    interrupted the writer), this and all further records are read from disk; so are the records
    after the writer has closed.

    Args:
        writer: a writer of this process.
    """

    def __init__(self, writer: FactsWriter) -> None:
        self._writer = writer
        self._disk: FactsTail | None = None
        self._queue = writer.subscribe()
        # Read after `subscribe`: a record written between the two is in the queue, and skipped.
        self.last_seq = writer.seq

    @property
    def is_cheap(self) -> bool:
        """Whether the next poll is certainly short: it reads no disk, and the queue is short."""
        return self._disk is None and self._queue.waiting_bytes < CHEAP_BYTES

    def poll(self) -> Sequence[EventRecord | StepRows | LiveRows]:
        """New records in the order of their numbers; cheap if there are none."""
        if self._disk is not None:
            return self._disk.poll()
        # Read before the queue: records written between the two lines are then taken below.
        is_over = self._writer.is_closed
        new = [record for record in self._queue.take() if record.seq > self.last_seq]
        records: list[EventRecord | LiveRows] = []
        for group in _consecutive_groups(new):
            if group[0].seq != self.last_seq + 1:
                is_over = True  # a record is missing: continue from the disk
                break
            records += _decode(group)
            self.last_seq = group[-1].seq
        if is_over:
            self._writer.unsubscribe(self._queue)
            run_dir, rank = self._writer.run_dir, self._writer.rank
            self._disk = FactsTail(run_dir, after_seq=self.last_seq, rank=rank, held=True)
        return records

    def close(self) -> None:
        """Stop following."""
        self._writer.unsubscribe(self._queue)
        if self._disk is not None:
            self._disk.close()


def _consecutive_groups(records: Iterable[WrittenRecord]) -> Iterator[list[WrittenRecord]]:
    """Groups of records with one layout and consecutive numbers."""
    for _, numbered in groupby(enumerate(records), key=_group_key):
        yield [record for _, record in numbered]


def _group_key(numbered: tuple[int, WrittenRecord]) -> tuple[int, int]:
    index, record = numbered
    return record.seq - index, 0 if record.layout is None else record.layout.identity


def _decode(group: list[WrittenRecord]) -> Iterator[EventRecord | LiveRows]:
    layout = group[0].layout
    if layout is not None:
        yield from _rows(layout, b"".join(record.data for record in group))
        return
    for seq, _, line in group:
        yield EventRecord(EventLine(seq, SCHEMA_VERSION, line.removesuffix(b"\n")))


def _rows(layout: Layout, frames: bytes) -> Iterator[LiveRows]:
    """Rows with consecutive numbers, cut where the timeline changes."""
    timelines, seqs, steps, *values = layout.columns(frames)
    named = zip(layout.names, values, strict=True)
    columns = {name: column for name, column in named if name not in CHECKSUM_NAMES}
    rows = LiveRows(seqs[0], seqs[-1], timelines[0], steps, columns)
    if timelines.count(timelines[0]) == len(timelines):  # nearly always
        yield rows
        return
    start = 0
    for timeline, same in groupby(timelines):
        stop = start + len(list(same))
        yield replace(rows.part(start, stop), timeline=timeline)
        start = stop
