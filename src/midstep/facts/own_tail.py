"""Follows the facts of a run in the process that writes them, without reading them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from midstep.facts.columns import RowGroup, row_dtype
from midstep.facts.lines import SCHEMA_VERSION, Line
from midstep.facts.tail import EventRecord, FactsTail, StepRows, split_rows
from midstep.facts.told import ToldRecord
from midstep.facts.writer import FactsWriter

__all__ = ["OwnTail"]

LIGHT_BYTES = 32 << 10
"""Some four thousand numbers."""


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

    def poll(self) -> list[EventRecord | StepRows]:
        """New records in the order of their numbers; empty, and cheap, when there are none."""
        if self._disk is not None:
            return self._disk.poll()
        is_over = self._writer.is_closed  # before the last records are taken
        fresh = [record for record in self._told.take() if record.seq > self.last_seq]
        found: list[EventRecord | StepRows] = []
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


def _as_facts(stretch: list[ToldRecord]) -> Iterator[EventRecord | StepRows]:
    layout = stretch[0].layout
    if layout is None:
        for seq, _, line in stretch:
            yield EventRecord(Line(seq, SCHEMA_VERSION, line.removesuffix(b"\n")))
    else:
        frames = b"".join(record.data for record in stretch)
        rows = np.frombuffer(frames, row_dtype(len(layout.names)))
        yield from split_rows(RowGroup(layout.names, rows), stretch[0].seq - 1)
