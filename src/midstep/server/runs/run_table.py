"""The runs this server can reach, by id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.facts.format.paths import events_path, last_attempt
from midstep.server.problems import Refusal, not_found
from midstep.server.runs.run_view import LiveRunView, RunView, ServedRunLike

if TYPE_CHECKING:
    from midstep.facts.index.run_row import RunRow
    from midstep.server.runs.run_catalog import RootCatalog
    from midstep.server.runs.stored_run import StoredRunView


class RunTable:
    """Runs by id. Lookups go through this listing; an id is never joined to a path."""

    in_memory = True
    """Whether a lookup never waits for a disk."""

    def __init__(self) -> None:
        self._entries: dict[str, RunView] = {}
        self._lock = threading.Lock()

    def add(self, run: ServedRunLike) -> LiveRunView:
        """Make a run reachable."""
        entry = LiveRunView(run)
        with self._lock:
            self._entries[entry.id] = entry
        return entry

    def remove(self, run_id: str) -> None:
        """Forget a run; unknown ids are fine."""
        with self._lock:
            self._entries.pop(run_id, None)

    def entries(self) -> list[RunView]:
        """All runs, newest first."""
        with self._lock:
            return list(self._entries.values())[::-1]

    def folders(self) -> list[Path]:
        """The folders that hold their run directories."""
        return list(dict.fromkeys(entry.dir.parent for entry in self.entries()))

    def get(self, run_id: str) -> RunView:
        """The run of this id, or a 404 that is the same for every wrong id."""
        with self._lock:
            entry = self._entries.get(run_id)
        if entry is None:
            raise not_found()
        return entry

    def only(self) -> RunView:
        """The one live run, for the short addresses; when all have ended, the one there is."""
        everyone = self.entries()
        live = [entry.id for entry in everyone if entry.is_live]
        return self.get(only_id(live, [entry.id for entry in everyone]))


def only_id(live: Sequence[str], everyone: Sequence[str]) -> str:
    """The one live run, else the one there is; several are refused with their ids, none is a 404.

    >>> only_id([], ["k3v9"])
    'k3v9'
    """
    ids = live or everyone
    if len(ids) > 1:
        names, more = ", ".join(ids[:8]), " …" if len(ids) > 8 else ""
        said = f"{len(ids)} runs are live" if live else f"None of the {len(ids)} runs is live"
        raise Refusal(
            409,
            "several_runs",
            f"{said} ({names}{more}). Use /api/v1/runs/{{id}}/debug/… to say which one.",
        )
    if not ids:
        raise not_found()
    return ids[0]


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
        self._opened: OrderedDict[str, tuple[_Stamp, StoredRunView]] = OrderedDict()
        self._opening = threading.Lock()

    def entries(self) -> list[RunView]:
        """Every run, newest first; each is opened, so ask the catalog for a list."""
        return [self.get(run_id) for run_id in self._ids()]

    def get(self, run_id: str) -> RunView:
        """The run of this id, or a 404 that is the same for every wrong id."""
        # Not at the top: it loads numpy, which the server of one live run does without.
        from midstep.server.runs.stored_run import StoredRunView

        run_dir = self._catalog.directory(run_id)
        if run_dir is None:
            raise not_found()
        stamp = _stamp(run_dir)
        with self._opening:
            known = self._opened.get(run_id)
            if known is None or known[0] != stamp:
                known = self._opened[run_id] = (stamp, StoredRunView(run_id, run_dir))
            self._opened.move_to_end(run_id)
            while len(self._opened) > MOST_OPEN:
                self._opened.popitem(last=False)
            return known[1]

    def only(self) -> RunView:
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
        from midstep.facts.index.run_query import RunQuery  # it loads numpy

        return self._catalog.list(RunQuery(limit=2**31)).rows


def _stamp(run_dir: Path) -> _Stamp:
    """Another file or another attempt: then the run is opened anew."""
    try:
        found = events_path(run_dir, 0, 0).stat()
    except OSError:
        return (0, 0, 0)
    return found.st_dev, found.st_ino, last_attempt(run_dir)
