"""Lists of runs and their curves: the runs of this process, or those of an outputs folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.server.problems import not_found
from midstep.server.runs.live_run import MOST_ROWS
from midstep.server.runs.run_table import RunTable
from midstep.server.runs.run_view import ENDED, RunView

if TYPE_CHECKING:
    from midstep.facts import Series
    from midstep.facts.index.curves import Axis, CurveCache
    from midstep.facts.index.run_index import RunChanges, RunIndex
    from midstep.facts.index.run_query import RunPage, RunQuery
    from midstep.facts.index.run_row import RunRow
    from midstep.facts.index.run_summary import RunSummary

T = TypeVar("T")
Paths = list[Path]
REFRESH_EVERY_S = 0.25
"""Requests within this time share one read of the disk."""


class Catalog(Protocol):
    """Runs by id and by query. An id is looked up in a listing, never joined to a path."""

    @property
    def can_delete(self) -> bool:
        """Whether run directories may be deleted."""

    def list(self, query: RunQuery) -> RunPage:
        """The runs that match a query, as they are now."""

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`; a 404 for an unknown id."""

    def directory(self, run_id: str) -> Path | None:
        """The directory of a run; None for an unknown id."""

    def copies(self, run_id: str) -> Sequence[str]:
        """Further directories that have this id, and are listed under other ids."""

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs; runs without it are left out."""

    def mark_stale(self) -> None:
        """Read the disk at the next request, because a run was just changed."""


class LiveCatalog:
    """The runs of the process that serves them."""

    can_delete = False

    def __init__(self, runs: RunTable) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._summaries: dict[str, RunSummary] = {}
        self._curves: CurveCache | None = None

    def list(self, query: RunQuery) -> RunPage:
        """The runs that match a query."""
        from midstep.facts.index.run_query import select

        return select([self._row(view) for view in self._runs.entries()], query)

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`."""
        return self._row(self._runs.get(run_id)).as_wire()

    def directory(self, run_id: str) -> Path | None:
        """The directory of a run; None for an unknown id."""
        return next((each.dir for each in self._runs.entries() if each.id == run_id), None)

    def copies(self, run_id: str) -> Sequence[str]:
        """None: every run of this process has its own id."""
        del run_id
        return ()

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs."""
        wanted = set(run_ids)
        views = [view for view in self._runs.entries() if view.id in wanted]
        curves = {view.id: self._curve(view, name, x, points) for view in views}
        return {run_id: curve for run_id, curve in curves.items() if curve is not None}

    def _curve(self, view: RunView, name: str, x: Axis, points: int) -> Series | None:
        from midstep.facts.index.curves import CurveCache

        with self._lock:
            if self._curves is None:
                self._curves = CurveCache(most_rows=MOST_ROWS)
        return self._curves.curve(
            view.dir,
            name,
            x=x,
            points=points,
            began_at=view.started_at,
            epochs=lambda: self._with_summary(view, lambda each, folder: each.epochs(folder)),
        )

    def mark_stale(self) -> None:
        """Nothing to do: every request reads the facts."""

    def _row(self, view: RunView) -> RunRow:
        """The row from the facts, with the present state of the controller in it."""
        # The state is read first: facts that come in between are newer, never older.
        state = view.state()
        row = self._with_summary(view, _row_from_facts)
        is_live = state["state"] not in ENDED
        speed = state["steps_per_s"]
        return replace(
            row,
            id=view.id,
            name=view.name,
            state=state["state"],
            live=is_live,
            reachable=is_live,
            why=state["reason"],
            step=state["step"],
            total_steps=state["total_steps"],
            epoch=row.epoch if state["epoch"] is None else state["epoch"],
            started_at=view.started_at,
            ended_at=None if is_live else row.ended_at,
            attempt=view.attempt,
            timeline=state["timeline"],
            summary=row.summary if speed is None else {**row.summary, "steps_per_s": speed},
        )

    def _with_summary(self, view: RunView, read: Callable[[RunSummary, str], T]) -> T:
        """Return `read(summary, folder)` on the updated summary of the run's facts."""
        from midstep.facts.index.run_summary import RunSummary

        folder = os.fspath(view.dir)
        with self._lock:
            summary = self._summaries.setdefault(view.id, RunSummary())
            summary.update(folder)
            return read(summary, folder)


def _row_from_facts(summary: RunSummary, folder: str) -> RunRow:
    from midstep.facts.format.run_files import disk_bytes
    from midstep.facts.index.run_row import row_from_summary

    if summary.disk_bytes is None:
        summary.disk_bytes = disk_bytes(folder)
    return row_from_summary(Path(folder).name, summary)


class RootCatalog:
    """The runs under an outputs folder, from its index.

    Args:
        index: the index of that folder.
        can_delete: whether run directories may be deleted.
    """

    def __init__(self, index: RunIndex, *, can_delete: bool = True) -> None:
        self.index, self.can_delete = index, can_delete
        self._lock = threading.Lock()
        self._refreshed_at = float("-inf")

    def refresh(self) -> RunChanges | None:
        """Read the disk and return what changed; None if it was read just now."""
        # The lock is held during the read, so that requests that arrive meanwhile share its result.
        with self._lock:
            if time.monotonic() - self._refreshed_at < REFRESH_EVERY_S:
                return None
            changes = self.index.refresh()
            self._refreshed_at = time.monotonic()
            return changes

    def mark_stale(self) -> None:
        """Read the disk at the next request."""
        with self._lock:
            self._refreshed_at = float("-inf")

    def list(self, query: RunQuery) -> RunPage:
        """The runs that match a query, as they are now."""
        self.refresh()
        return self.index.rows(query)

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`; an unknown id is first looked for on disk."""
        self.refresh()
        row = self.index.row(run_id)
        if row is None:  # a run that was started just now is not in the last read
            self.mark_stale()
            self.refresh()
            row = self.index.row(run_id)
        if row is None:
            raise not_found()
        return row.as_wire()

    def directory(self, run_id: str) -> Path | None:
        """The directory of a run; None for an unknown id."""
        directory = self.index.directory(run_id)
        if directory is None:
            self.refresh()
            directory = self.index.directory(run_id)
        return directory

    def copies(self, run_id: str) -> Sequence[str]:
        """Further directories that have this id."""
        return self.index.copies(run_id)

    def live(self) -> Paths:
        """The directories of the runs that have not ended."""
        from midstep.facts.index.run_query import RunQuery

        self.refresh()
        rows = self.index.rows(RunQuery(limit=2**31)).rows
        directories = [self.index.directory(row.id) for row in rows if row.live]
        return [path for path in directories if path is not None]

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs."""
        self.refresh()
        return self.index.curves(run_ids, name, x=x, points=points)
