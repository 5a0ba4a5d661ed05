"""What stands behind the list of runs: one run's own process, or a whole outputs folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.server.problems import not_found
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
LOOK_AGAIN_S = 0.25
"""Lists asked for within this time share one look at the disk."""


class Catalog(Protocol):
    """Runs by id and by query; every id is mapped by listing, never joined to a path."""

    @property
    def can_delete(self) -> bool:
        """Whether run directories may be removed from here."""
        ...

    def list(self, query: RunQuery) -> RunPage:
        """The runs that a query asks for, as they are now."""
        ...

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`; a 404 for an id that is not listed."""
        ...

    def directory(self, run_id: str) -> Path | None:
        """The directory of a listed run; None for every other id."""
        ...

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs; those that have none are left out."""
        ...

    def look(self) -> None:
        """Forget what was remembered: something has just been changed on disk."""
        ...


class LiveCatalog:
    """The runs of the process that serves them."""

    can_delete = False

    def __init__(self, runs: RunTable) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._digests: dict[str, RunSummary] = {}
        self._shelf: CurveCache | None = None

    def list(self, query: RunQuery) -> RunPage:
        """The runs that a query asks for."""
        from midstep.facts.index.run_query import select

        return select([self._row(entry) for entry in self._runs.entries()], query)

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`."""
        return self._row(self._runs.get(run_id)).as_wire()

    def directory(self, run_id: str) -> Path | None:
        """The directory of a run; None for an unknown id."""
        return next((each.dir for each in self._runs.entries() if each.id == run_id), None)

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs."""
        wanted = set(run_ids)
        found = {
            entry.id: self._curve(entry, name, x, points)
            for entry in self._runs.entries()
            if entry.id in wanted
        }
        return {run_id: curve for run_id, curve in found.items() if curve is not None}

    def _curve(self, entry: RunView, name: str, x: Axis, points: int) -> Series | None:
        from midstep.facts.index.curves import CurveCache

        with self._lock:
            if self._shelf is None:
                self._shelf = CurveCache()
        return self._shelf.curve(
            entry.dir,
            name,
            x=x,
            points=points,
            began_at=entry.started_at,
            epochs=lambda: self._digested(entry, lambda each, folder: each.epochs(folder)),
        )

    def look(self) -> None:
        """Nothing is remembered here."""

    def _row(self, entry: RunView) -> RunRow:
        """What the facts say, and over it the state of the controller, which is the truth."""
        state = entry.state()
        row = self._digested(entry, _facts_row)
        is_live = state["state"] not in ENDED
        speed = state["steps_per_s"]
        return replace(
            row,
            id=entry.id,
            name=entry.name,
            state=state["state"],
            live=is_live,
            reachable=is_live,
            why=state["reason"],
            step=state["step"],
            total_steps=state["total_steps"],
            epoch=row.epoch if state["epoch"] is None else state["epoch"],
            started_at=entry.started_at,
            ended_at=None if is_live else row.ended_at,
            attempt=entry.attempt,
            timeline=state["timeline"],
            summary=row.summary if speed is None else {**row.summary, "steps_per_s": speed},
        )

    def _digested(self, entry: RunView, ask: Callable[[RunSummary, str], T]) -> T:
        """`ask(digest, folder)` on what is known of the run's facts now."""
        from midstep.facts.index.run_summary import RunSummary

        folder = os.fspath(entry.dir)
        with self._lock:
            digest = self._digests.setdefault(entry.id, RunSummary())
            digest.update(folder)
            return ask(digest, folder)


def _facts_row(digest: RunSummary, folder: str) -> RunRow:
    from midstep.facts.format.run_files import disk_bytes
    from midstep.facts.index.run_row import row_from_summary

    if digest.disk_bytes is None:
        digest.disk_bytes = disk_bytes(folder)
    return row_from_summary(Path(folder).name, digest)


class RootCatalog:
    """The runs under an outputs folder, from its index.

    Args:
        index: of that folder.
        can_delete: whether run directories may be removed from here.
    """

    def __init__(self, index: RunIndex, *, can_delete: bool = True) -> None:
        self.index, self.can_delete = index, can_delete
        self._lock = threading.Lock()
        self._looked_at = float("-inf")

    def refresh(self) -> RunChanges | None:
        """Look at the disk, unless somebody just has; gives what changed since the last look."""
        with self._lock:
            if time.monotonic() - self._looked_at < LOOK_AGAIN_S:
                return None
            changes = self.index.refresh()
            self._looked_at = time.monotonic()
            return changes

    def look(self) -> None:
        """Let the next answer look at the disk."""
        with self._lock:
            self._looked_at = float("-inf")

    def list(self, query: RunQuery) -> RunPage:
        """The runs that a query asks for, as they are now."""
        self.refresh()
        return self.index.rows(query)

    def row(self, run_id: str) -> dict[str, Any]:
        """One run as `RunOut`; an id that is not listed is looked for on the disk first."""
        self.refresh()
        row = self.index.row(run_id)
        if row is None:
            self.look()
            self.refresh()
            row = self.index.row(run_id)
        if row is None:
            raise not_found()
        return row.as_wire()

    def directory(self, run_id: str) -> Path | None:
        """The directory of a listed run; None for every other id."""
        found = self.index.directory(run_id)
        if found is None:
            self.refresh()
            found = self.index.directory(run_id)
        return found

    def live(self) -> Paths:
        """The directories of the runs that have not ended."""
        from midstep.facts.index.run_query import RunQuery

        self.refresh()
        rows = self.index.rows(RunQuery(limit=2**31)).rows
        found = [self.index.directory(row.id) for row in rows if row.live]
        return [path for path in found if path is not None]

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis, points: int
    ) -> Mapping[str, Series]:
        """One series of several runs."""
        self.refresh()
        return self.index.curves(run_ids, name, x=x, points=points)
