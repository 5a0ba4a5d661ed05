"""Reads the facts of a run, finished or live, from the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError
from midstep.facts.events_index import EventsIndex
from midstep.facts.lines import SCHEMA_VERSION, Line
from midstep.facts.places import events_path, list_events_files
from midstep.facts.series import Series, SeriesStore
from midstep.facts.tail import FactsTail
from midstep.facts.timelines import Rewind, TimelinePath, find_rewinds, path_of

__all__ = ["FactsReader"]

ALL_POINTS = 2**62


class FactsReader:
    """The facts of one run directory; each call looks at the disk again.

    It remembers where it has been: kept, a reader reads of a long file only what is asked for.
    One thread may use it at a time.

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
        self._indexes: dict[Path, EventsIndex] = {}

    def header(self) -> dict[str, Any]:
        """The `on_start` record of the last attempt; empty when there is none yet."""
        start = self._index(events_path(self.run_dir, 0, 0)).last_start()
        return {} if start is None else start.record()

    def events(
        self, after_seq: int = 0, limit: int | None = None, *, rank: int | None = 0
    ) -> list[dict[str, Any]]:
        """Events behind a number, oldest first; `rank=None` merges those of all ranks by time."""
        lines = self._lines(after_seq, rank)
        if rank is not None:
            return [line.record() for line in islice(lines, limit)]
        found = [line.record() for line in lines]
        found.sort(key=lambda record: (record["wall"], record["rank"], record["seq"]))
        return found[:limit]

    def _lines(self, after_seq: int, rank: int | None) -> Iterator[Line]:
        for of_rank, _, path in list_events_files(self.run_dir):
            if rank is None or of_rank == rank:
                for line in self._index(path).lines(after_seq):
                    if line.version == SCHEMA_VERSION:
                        yield line

    def _index(self, path: Path) -> EventsIndex:
        return self._indexes.setdefault(path, EventsIndex(path))

    def series(
        self, names: Iterable[str] | None = None, *, timeline: int | None = None
    ) -> dict[str, Series]:
        """Every point of the named series, or of all.

        Args:
            names: which ones.
            timeline: as they were in that timeline; left out, per step the highest one counts.
        """
        self._store.refresh()
        wanted = self._store.names if names is None else list(names)
        path = None if timeline is None else self.path_of(timeline)
        return {name: self._store.series(name, points=ALL_POINTS, path=path) for name in wanted}

    def rewinds(self) -> list[Rewind]:
        """Every time the run was taken back, oldest first."""
        return find_rewinds(self.events())

    def path_of(self, timeline: int) -> TimelinePath:
        """Which rows belong to a timeline.

        Raises:
            ConfigError: if the run has no such timeline.
        """
        rewinds = self.rewinds()
        self._store.refresh()
        last = max([self._store.timeline, *(rewind.timeline for rewind in rewinds)])
        if not 0 <= timeline <= last:
            raise ConfigError(f"no timeline {timeline} in this run; it has 0 to {last}")
        return path_of(timeline, rewinds)

    @property
    def names(self) -> list[str]:
        """Names of the series."""
        self._store.refresh()
        return self._store.names

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        self._tail.poll()
        return self._tail.last_seq

    @property
    def problems(self) -> list[str]:
        """Gaps, damage and unknown versions, one line each; empty when all is well."""
        self._tail.poll()
        return self._tail.problems
