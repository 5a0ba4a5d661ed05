"""The runs behind `midstep serve`: found by listing, opened from facts when asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.facts.places import events_path, last_attempt
from midstep.facts.run_query import RunQuery
from midstep.server.problems import not_found
from midstep.server.run_table import RunEntry, RunTable, only_id
from midstep.server.stored_run import StoredEntry, StoredRun

if TYPE_CHECKING:
    from midstep.facts.run_row import RunRow
    from midstep.server.catalog import RootCatalog

__all__ = ["ServedRuns"]

MOST_OPEN = 8
"""Stored runs whose series are held in memory; the one not asked for longest goes."""
_Stamp = tuple[int, int, int]


class ServedRuns(RunTable):
    """Runs under an outputs root. Lookups go through a listing; an id is never joined to a path.

    Args:
        catalog: lists the runs.
    """

    in_memory = False

    def __init__(self, catalog: RootCatalog) -> None:
        super().__init__()
        self._catalog = catalog
        self._opened: OrderedDict[str, tuple[_Stamp, StoredEntry]] = OrderedDict()
        self._opening = threading.Lock()

    def entries(self) -> list[RunEntry]:
        """Every run, newest first; each is opened, so ask the catalog for a list."""
        return [self.get(run_id) for run_id in self._ids()]

    def get(self, run_id: str) -> RunEntry:
        """The run of this id, or a 404 that is the same for every wrong id."""
        run_dir = self._catalog.directory(run_id)
        if run_dir is None:
            raise not_found()
        stamp = _stamp(run_dir)
        with self._opening:
            known = self._opened.get(run_id)
            if known is None or known[0] != stamp:
                known = self._opened[run_id] = (stamp, StoredEntry(StoredRun(run_id, run_dir)))
            self._opened.move_to_end(run_id)
            while len(self._opened) > MOST_OPEN:
                self._opened.popitem(last=False)
            return known[1]

    def only(self) -> RunEntry:
        """The one live run, for the short addresses; when all have ended, the one there is."""
        return self.get(only_id(self._ids(live=True), self._ids()))

    def folders(self) -> list[Path]:
        """The folders that hold run directories."""
        root = self._catalog.index.root
        found = [root / row.directory for row in self._rows()]
        return list(dict.fromkeys([root, *(path.parent for path in found)]))

    def _ids(self, *, live: bool = False) -> list[str]:
        return [row.id for row in self._rows() if row.live or not live]

    def _rows(self) -> list[RunRow]:
        return self._catalog.list(RunQuery(limit=2**31)).rows


def _stamp(run_dir: Path) -> _Stamp:
    """Another file or another attempt: then the run is opened anew."""
    try:
        found = events_path(run_dir, 0, 0).stat()
    except OSError:
        return (0, 0, 0)
    return found.st_dev, found.st_ino, last_attempt(run_dir)
