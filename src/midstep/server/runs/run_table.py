"""The runs that this server can show, by id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.facts.format.paths import events_path, last_attempt
from midstep.server.problems import Refusal, not_found
from midstep.server.runs.live_run import LiveRunView
from midstep.server.runs.run_view import RunView

if TYPE_CHECKING:
    from midstep.facts.index.run_row import RunRow
    from midstep.server.runs.run_catalog import RootCatalog
    from midstep.server.runs.stored_run import StoredRunView
    from midstep.session import Run


class RunTable:
    """Runs by id. An id from a request is looked up here and never joined to a path."""

    in_memory = True
    """Whether a lookup needs no disk, so that it may run on the event loop."""

    def __init__(self) -> None:
        self._views: dict[str, RunView] = {}
        self._lock = threading.Lock()

    def add(self, run: Run) -> LiveRunView:
        """Add a run of this process."""
        view = LiveRunView(run)
        with self._lock:
            self._views[view.id] = view
        return view

    def remove(self, run_id: str) -> None:
        """Remove a run. An unknown id is not an error."""
        with self._lock:
            self._views.pop(run_id, None)

    def entries(self) -> list[RunView]:
        """All runs, newest first."""
        with self._lock:
            return list(self._views.values())[::-1]

    def folders(self) -> list[Path]:
        """The folders that hold the run directories."""
        return list(dict.fromkeys(view.dir.parent for view in self.entries()))

    def get(self, run_id: str) -> RunView:
        """The run of this id, or a 404 that is the same for every wrong id."""
        with self._lock:
            view = self._views.get(run_id)
        if view is None:
            raise not_found()
        return view

    def only(self) -> RunView:
        """The run of the short addresses: the only live one, else the only one."""
        views = self.entries()
        live = [view.id for view in views if view.is_live]
        return self.get(only_id(live, [view.id for view in views]))


def only_id(live: Sequence[str], all_ids: Sequence[str]) -> str:
    """The only live run, else the only run. Several are a 409 that names them, none is a 404.

    >>> only_id([], ["k3v9"])
    'k3v9'
    """
    ids = live or all_ids
    if len(ids) > 1:
        names, more = ", ".join(ids[:8]), " …" if len(ids) > 8 else ""
        count = f"{len(ids)} runs are live" if live else f"None of the {len(ids)} runs is live"
        raise Refusal(
            409,
            "several_runs",
            f"{count} ({names}{more}). Use /api/v1/runs/{{id}}/debug/… to say which one.",
        )
    if not ids:
        raise not_found()
    return ids[0]


MOST_OPEN = 8
"""Stored runs whose series are kept in memory; the least recently used one is dropped."""
_Stamp = tuple[int, int, int]


class ServedRuns(RunTable):
    """Stored runs under an outputs folder, opened at the first request.

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
        """All runs, newest first. This opens every run; `RootCatalog.list` does not."""
        return [self.get(run_id) for run_id in self._ids()]

    def get(self, run_id: str) -> RunView:
        """The run of this id, or a 404 that is the same for every wrong id."""
        # Imported late: it loads numpy, which the server of one live run does not need.
        from midstep.server.runs.stored_run import StoredRunView

        run_dir = self._catalog.directory(run_id)
        if run_dir is None:
            raise not_found()
        stamp = _stamp(run_dir)
        # Opened under the lock: two requests for the same run must not read its facts twice.
        with self._opening:
            known = self._opened.get(run_id)
            if known is None or known[0] != stamp:
                known = self._opened[run_id] = (stamp, StoredRunView(run_id, run_dir))
            self._opened.move_to_end(run_id)
            while len(self._opened) > MOST_OPEN:
                self._opened.popitem(last=False)
            return known[1]

    def only(self) -> RunView:
        """The run of the short addresses: the only live one, else the only one."""
        return self.get(only_id(self._ids(live=True), self._ids()))

    def folders(self) -> list[Path]:
        """The folders that hold run directories."""
        root = self._catalog.index.root
        run_dirs = [root / row.directory for row in self._rows()]
        return list(dict.fromkeys([root, *(path.parent for path in run_dirs)]))

    def _ids(self, *, live: bool = False) -> list[str]:
        return [row.id for row in self._rows() if row.live or not live]

    def _rows(self) -> list[RunRow]:
        from midstep.facts.index.run_query import RunQuery  # it loads numpy

        return self._catalog.list(RunQuery(limit=2**31)).rows


def _stamp(run_dir: Path) -> _Stamp:
    """Changes when the directory was replaced or the run was started again; then it is reopened."""
    try:
        status = events_path(run_dir, 0, 0).stat()
    except OSError:
        return (0, 0, 0)
    return status.st_dev, status.st_ino, last_attempt(run_dir)
