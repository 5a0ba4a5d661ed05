"""Finds its way in an events file: where to start reading, and the last start record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from midstep.core.moments import Moment
from midstep.facts.lines import SCHEMA_VERSION, EventsScanner, Line

__all__ = ["EventsIndex"]

MARK_EVERY_BYTES = 64 << 10
_START = f',"moment":"{Moment.START}","run_id":'.encode()


class EventsIndex:
    """Remembers byte offsets on the way, so that a later look reads only what it needs.

    Numbers rise within a file, and whole lines stay where they are; a file that was replaced or
    is shorter than what was read of it is begun anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None
        self._begin()

    def _begin(self) -> None:
        self._mark_seqs: list[int] = []
        self._mark_offsets: list[int] = []
        self._starts = EventsScanner(self.path)
        self._last_start: Line | None = None

    def lines(self, after_seq: int) -> Iterator[Line]:
        """Whole records behind a number, in order."""
        self._check_identity()
        place = bisect_right(self._mark_seqs, after_seq)
        scanner = EventsScanner(self.path, offset=self._mark_offsets[place - 1] if place else 0)
        known, behind = after_seq, scanner.offset
        for line in scanner.read():
            if scanner.offset != behind:  # several records may be left of one damaged line
                self._mark(known, behind)
            known, behind = line.seq, scanner.offset
            if line.seq > after_seq:
                yield line

    def last_start(self) -> Line | None:
        """The newest `on_start` record; each byte of the file is looked at once."""
        self._check_identity()
        for line in self._starts.read():
            if _START in line.raw and line.version == SCHEMA_VERSION:
                self._last_start = line
        return self._last_start

    def _mark(self, seq: int, offset: int) -> None:
        """Note that what is behind record `seq` starts at `offset`."""
        if offset >= (self._mark_offsets[-1] if self._mark_offsets else 0) + MARK_EVERY_BYTES:
            self._mark_seqs.append(seq)
            self._mark_offsets.append(offset)

    def _check_identity(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return
        identity = (found.st_dev, found.st_ino)
        known = max(self._starts.offset, *self._mark_offsets[-1:], 0)
        if self._identity not in (None, identity) or found.st_size < known:
            self._begin()
        self._identity = identity
