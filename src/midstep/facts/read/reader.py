"""`FactsReader`: header, events and series of a run, finished or live."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import SCHEMA_VERSION, EventLine
from midstep.facts.format.paths import events_path, list_events_files
from midstep.facts.format.scanners import EventsScanner
from midstep.facts.read.series import ALL_POINTS, Series, SeriesStore
from midstep.facts.read.tail import FactsTail
from midstep.facts.read.timelines import Rewind, TimelinePath, find_rewinds, path_of

MARK_EVERY_BYTES = 64 << 10
"""How far apart remembered offsets are: a read starts at most this much before its number."""
_START = f',"moment":"{Moment.START}","run_id":'.encode()


class EventOffsets:
    """Reads the events after a number, and remembers byte offsets of numbers on the way.

    So a later read starts near the number, not at the beginning. Numbers rise within a file, and
    whole lines stay where they are. If the file was replaced or cut, the offsets are forgotten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None
        self._reset()

    def _reset(self) -> None:
        self._mark_seqs: list[int] = []
        self._mark_offsets: list[int] = []
        self._starts = EventsScanner(self.path)
        self._last_start: EventLine | None = None

    def lines(self, after_seq: int) -> Iterator[EventLine]:
        """Whole records after a number, in order."""
        self._check_identity()
        mark = bisect_right(self._mark_seqs, after_seq)
        scanner = EventsScanner(self.path, offset=self._mark_offsets[mark - 1] if mark else 0)
        known, end = after_seq, scanner.offset
        for line in scanner.read():
            if scanner.offset != end:  # one damaged line may hold several whole records
                self._mark(known, end)
            known, end = line.seq, scanner.offset
            if line.seq > after_seq:
                yield line

    def last_start(self) -> EventLine | None:
        """The newest `on_start` record; each byte of the file is read once."""
        self._check_identity()
        for line in self._starts.read():
            if _START in line.raw and line.version == SCHEMA_VERSION:
                self._last_start = line
        return self._last_start

    def _mark(self, seq: int, offset: int) -> None:
        """Remember that the record after number `seq` starts at `offset`."""
        if offset >= (self._mark_offsets[-1] if self._mark_offsets else 0) + MARK_EVERY_BYTES:
            self._mark_seqs.append(seq)
            self._mark_offsets.append(offset)

    def _check_identity(self) -> None:
        try:
            status = self.path.lstat()
        except OSError:
            return
        identity = (status.st_dev, status.st_ino)
        # Shorter than what was read: cut by a recovery, or another file under the same name.
        known = max(self._starts.offset, *self._mark_offsets[-1:], 0)
        if self._identity not in (None, identity) or status.st_size < known:
            self._reset()
        self._identity = identity


class FactsReader:
    """The facts of one run directory; each call reads what is new on the disk.

    Keep a reader for several calls: it remembers offsets, so it reads only the requested part of a
    long file. One thread may use it at a time.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.event("on_start", seed=7)
    1
    >>> FactsReader(folder).header()["seed"]
    7
    """

    def __init__(self, run_dir: str | Path) -> None:
        self.run_dir = Path(run_dir)
        self._tail = FactsTail(run_dir)
        self._store = SeriesStore(run_dir)
        self._offsets: dict[Path, EventOffsets] = {}

    def header(self) -> dict[str, Any]:
        """The `on_start` record of the last attempt; empty if there is none yet."""
        start = self._offsets_of(events_path(self.run_dir, 0, 0)).last_start()
        return {} if start is None else start.record()

    def events(
        self, after_seq: int = 0, limit: int | None = None, *, rank: int | None = 0
    ) -> list[dict[str, Any]]:
        """Events after a number, oldest first; `rank=None` merges those of all ranks by time."""
        lines = self._lines(after_seq, rank)
        if rank is not None:
            return [line.record() for line in islice(lines, limit)]
        records = [line.record() for line in lines]
        records.sort(key=lambda record: (record["wall"], record["rank"], record["seq"]))
        return records[:limit]

    def each_event(self) -> Iterator[dict[str, Any]]:
        """Every event of rank 0, oldest first, one in memory at a time."""
        for line in self._lines(0, 0):
            yield line.record()

    def _lines(self, after_seq: int, rank: int | None) -> Iterator[EventLine]:
        for file_rank, _, path in list_events_files(self.run_dir):
            if rank is None or file_rank == rank:
                for line in self._offsets_of(path).lines(after_seq):
                    if line.version == SCHEMA_VERSION:
                        yield line

    def _offsets_of(self, path: Path) -> EventOffsets:
        return self._offsets.setdefault(path, EventOffsets(path))

    def series(
        self, names: Iterable[str] | None = None, *, timeline: int | None = None
    ) -> dict[str, Series]:
        """Every point of the named series, or of all.

        Args:
            names: which series; by default all.
            timeline: the series as they were in that timeline; the present one by default.
        """
        self._store.refresh()
        wanted = self._store.names if names is None else list(names)
        path = None if timeline is None else self.path_of(timeline)
        return {name: self._store.series(name, points=ALL_POINTS, path=path) for name in wanted}

    def rewinds(self) -> list[Rewind]:
        """Every rewind of the run, oldest first."""
        return find_rewinds(line.record() for line in self._lines(0, 0) if b'"rewind"' in line.raw)

    def path_of(self, timeline: int) -> TimelinePath:
        """Which rows belong to a timeline.

        Raises:
            ConfigError: if the run has no such timeline.
        """
        last = self.last_timeline
        if not 0 <= timeline <= last:
            raise ConfigError(f"no timeline {timeline} in this run; it has 0 to {last}")
        return path_of(timeline, self.rewinds())

    @property
    def last_timeline(self) -> int:
        """The number of the present timeline, from 0."""
        self._store.refresh()
        return max([self._store.timeline, *(rewind.timeline for rewind in self.rewinds())])

    @property
    def names(self) -> list[str]:
        """Names of the series."""
        self._store.refresh()
        return self._store.names

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        self._tail.advance()
        return self._tail.last_seq

    @property
    def problems(self) -> list[str]:
        """Gaps, damage and unknown versions, one line each; empty if there are none."""
        self._tail.advance()
        return self._tail.problems
