"""`RunIndex`: the runs of an outputs folder as a list, without reading all files each time.

The facts on disk are the only source. The index keeps a summary of each run in memory and in the
user's cache folder. A refresh compares sizes, times and tails of files, and continues reading where
a file grew. The state of a run is never cached: it is derived at every refresh.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from midstep.core.files.untrusted_files import FILE_ERRORS
from midstep.facts.format.run_files import disk_bytes
from midstep.facts.index.curves import Axis, CurveCache
from midstep.facts.index.epoch_history import EpochHistory
from midstep.facts.index.index_cache import CachedSummary, IndexCache, cache_file
from midstep.facts.index.run_folders import list_run_folders
from midstep.facts.index.run_query import RunPage, RunQuery, select
from midstep.facts.index.run_row import (
    RunRow,
    derived_id,
    has_new_events,
    row_from_summary,
    row_with_state,
    unreadable_row,
)
from midstep.facts.index.run_summary import RunSummary
from midstep.facts.liveness.run_liveness import HeartbeatWatch
from midstep.facts.liveness.run_lock import lock_holder
from midstep.facts.read.series import Series

SAVE_EVERY_S = 2.0
"""How often changes are saved: a live run changes at every refresh."""
COUNT_S = 0.1
"""How long a refresh may count bytes of directories; the next one continues."""

_log = logging.getLogger("midstep.facts")


@dataclass(frozen=True, kw_only=True)
class RunChanges:
    """The ids of runs that a refresh found new, changed or removed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class RunIndex:
    """The runs under a folder. Safe to use from several threads.

    Args:
        root: the outputs folder.
        cache: the cache file. None chooses one in the user's cache folder; "memory" uses none.
        watch: remembers heartbeats of other hosts.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> root = Path(tempfile.mkdtemp())
    >>> with FactsWriter(root / "run_a") as facts:
    ...     facts.event("on_train_end", status="finished")
    1
    >>> index = RunIndex(root, cache="memory")
    >>> len(index.refresh().added), index.rows().rows[0].state
    (1, 'finished')
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        cache: Path | Literal["memory"] | None = None,
        *,
        watch: HeartbeatWatch | None = None,
    ) -> None:
        self.root = Path(root)
        path = cache_file(root) if cache is None else cache
        self._cache = IndexCache(None if path == "memory" else Path(path) if path else None)
        self._watch = watch or HeartbeatWatch()
        self._lock = threading.RLock()
        self._curves = CurveCache()
        self._summaries: dict[str, RunSummary] = {}
        self._facts_rows: dict[str, tuple[RunRow, bool]] = {}
        """The row of each directory, and whether it is final: then its state is not read again."""
        self._rows: dict[str, RunRow] = {}
        self._directories: dict[str, str] = {}
        """By id, the path relative to the root, as the file system spells it."""
        self._copies: dict[str, tuple[str, ...]] = {}
        """By id, the further directories that have it; they are listed under other ids."""
        self._unsaved: set[str] = set()
        self._removed: set[str] = set()
        self._saved_at = math.inf
        self._is_loaded = False

    # -- refresh ----------------------------------------------------------------------------------

    def refresh(self) -> RunChanges:
        """Read what changed on the disk."""
        with self._lock:
            self._load_once()
            self._update_summaries()
            self._count_bytes()
            changes = self._list_rows()
            # A page waits for the first refresh, so the second one saves.
            if self._saved_at == math.inf:
                self._saved_at = -math.inf
            elif time.monotonic() - self._saved_at >= SAVE_EVERY_S:
                self.save_cache()
            return changes

    def _load_once(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        for directory, row in self._cache.load().items():
            try:
                summary = RunSummary.of_json(json.loads(row.digest), row.history)
            except FILE_ERRORS as error:
                _log.warning("the cached index of %s is rebuilt: %s", directory, error)
                continue
            self._summaries[directory] = summary

    def _update_summaries(self) -> None:
        directories = list_run_folders(self.root)
        for directory in self._summaries.keys() - set(directories):
            self._forget(directory)
        base = os.fspath(self.root)  # joined as text below: `Path` costs more for a thousand runs
        for directory in directories:
            summary = self._summaries.get(directory)
            if summary is None:
                summary = self._summaries[directory] = RunSummary()
            try:
                is_changed = summary.update(f"{base}/{directory}")
            except FILE_ERRORS as error:  # what the cache file holds makes no sense
                _log.warning("the cached index of %s is rebuilt: %s", directory, error)
                summary = self._summaries[directory] = RunSummary()
                is_changed = summary.update(f"{base}/{directory}")
            if is_changed:
                self._facts_rows.pop(directory, None)
                self._unsaved.add(directory)

    def _forget(self, directory: str) -> None:
        del self._summaries[directory]
        self._facts_rows.pop(directory, None)
        self._unsaved.discard(directory)
        self._removed.add(directory)

    def _count_bytes(self) -> None:
        """Count the bytes of changed directories, as many as there is time for."""
        until = time.monotonic() + COUNT_S
        for directory, summary in self._summaries.items():
            if summary.disk_bytes is None:
                summary.disk_bytes = disk_bytes(f"{os.fspath(self.root)}/{directory}")
                self._facts_rows.pop(directory, None)
                self._unsaved.add(directory)
                if time.monotonic() >= until:
                    return

    def _list_rows(self) -> RunChanges:
        """Derive the rows and ids of all runs."""
        rows: dict[str, RunRow] = {}
        directories: dict[str, str] = {}
        copies: dict[str, tuple[str, ...]] = {}
        # Of two directories with the same id the live one keeps it, else the first by name.
        for directory in sorted(
            self._summaries, key=lambda each: (not self._summaries[each].has_lease, each)
        ):
            if self._has_no_id_yet(directory):
                continue
            try:
                row = self._row(directory)
            except FILE_ERRORS as error:  # whole records with unexpected values
                why = f"its facts make no sense: {type(error).__name__}: {error}"
                row = unreadable_row(directory, why)
            if row.id in rows:
                copies[row.id] = (*copies.get(row.id, ()), row.directory)
                row = _as_copy(row, directory, rows[row.id])
            rows[row.id], directories[row.id] = row, directory
        self._copies = copies
        before, self._rows, self._directories = self._rows, _with_parents(rows), directories
        return _changes(before, self._rows)

    def _has_no_id_yet(self, directory: str) -> bool:
        """Whether a process has just locked the directory and not yet written an id.

        Listed now it would get an id made from its path, and another one at the next refresh.
        """
        summary = self._summaries[directory]
        if (
            summary.has_lease
            or summary.events.records
            or any(each.rows for each in summary.steps.values())
        ):
            return False
        return lock_holder(self.root / directory) is not None

    def _row(self, directory: str) -> RunRow:
        summary = self._summaries[directory]
        known, is_final = self._facts_rows.get(directory, (None, False))
        if known is not None and is_final and not summary.has_lease:
            return known
        if known is None or is_final:
            known = row_from_summary(directory, summary)
        folder = self.root / directory
        row = row_with_state(known, folder, summary, self._watch)
        # It may have ended after its files were read: then the end record is still unread.
        if not row.live and has_new_events(folder, summary):
            summary.update(os.fspath(folder))
            known = row_from_summary(directory, summary)
            row = row_with_state(known, folder, summary, self._watch)
        # A recorded end holds until the files change, or a process takes the run up again.
        is_final = summary.events.end is not None and not summary.has_lease
        self._facts_rows[directory] = (row if is_final else known, is_final)
        return row

    # -- queries ----------------------------------------------------------------------------------

    def rows(self, query: RunQuery | None = None) -> RunPage:
        """The runs that a query selects, as of the last `refresh`."""
        with self._lock:
            rows = list(self._rows.values())
        return select(rows, query or RunQuery())

    def row(self, run_id: str) -> RunRow | None:
        """One run as of the last `refresh`; None if the id is not listed."""
        with self._lock:
            return self._rows.get(run_id)

    def directory(self, run_id: str) -> Path | None:
        """The directory of a listed run; None if it is not listed, or is a link now."""
        with self._lock:
            directory = self._directories.get(run_id)
        if directory is None:
            return None
        # Checked at every call: the folder may have been replaced by a link since it was listed.
        real = os.path.realpath(self.root)
        path = f"{real}/{directory}"
        return self.root / directory if os.path.realpath(path) == path else None

    def copies(self, run_id: str) -> tuple[str, ...]:
        """Further directories with this id, relative to the root; the listed one is not in it."""
        with self._lock:
            return self._copies.get(run_id, ())

    def histories(self, run_ids: Iterable[str] | None = None) -> dict[str, EpochHistory]:
        """The epoch history of each run; by default of all runs."""
        with self._lock:
            wanted = list(self._rows) if run_ids is None else list(run_ids)
            return {
                run_id: self._history(self._directories[run_id])
                for run_id in wanted
                if run_id in self._directories
            }

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis = "step", points: int = 500
    ) -> dict[str, Series]:
        """One series of several runs, to be drawn over each other; runs without it are left out.

        Args:
            run_ids: which runs.
            name: the series: a scalar of steps, or a value of epoch records.
            x: `step`, `epoch` (finished epochs) or `time` (seconds since the run began).
            points: the most points of each run; beyond that, min/max buckets.
        """
        curves = {}
        for run_id in run_ids:
            row, folder = self.row(run_id), self.directory(run_id)
            if row is None or folder is None:
                continue
            curves[run_id] = self._curves.curve(
                folder,
                name,
                x=x,
                points=points,
                began_at=row.started_at,
                epochs=partial(self._epochs, run_id),
            )
        return {run_id: curve for run_id, curve in curves.items() if curve is not None}

    def _epochs(self, run_id: str) -> EpochHistory:
        return self.histories([run_id]).get(run_id) or EpochHistory()

    def _history(self, directory: str) -> EpochHistory:
        summary = self._summaries[directory]
        before = summary.history_offset
        history = summary.epochs(f"{os.fspath(self.root)}/{directory}")
        if summary.history_offset != before:
            self._unsaved.add(directory)
        return history

    # -- cache ------------------------------------------------------------------------------------

    def save_cache(self) -> None:
        """Save what changed to the cache file."""
        with self._lock:
            rows = {
                directory: CachedSummary(
                    json.dumps(self._summaries[directory].as_json()).encode(),
                    self._summaries[directory].history,
                )
                for directory in self._unsaved
            }
            if self._cache.store(rows, self._removed):  # else they are saved at the next refresh
                self._unsaved, self._removed = set(), set()
            self._saved_at = time.monotonic()

    def close(self) -> None:
        """Save what is not saved yet. The index can still be used."""
        self.save_cache()


def _as_copy(row: RunRow, directory: str, first: RunRow) -> RunRow:
    """The row under another id: its directory is a copy and has the id of the first one."""
    note = f"it has the id of {first.directory}, too: a copy"
    why = note if row.why is None else f"{row.why}; {note}"
    return replace(row, id=derived_id(directory), why=why)


def _with_parents(rows: Mapping[str, RunRow]) -> dict[str, RunRow]:
    """The rows, with the id of the parent in place of its directory name if it is listed."""
    by_name = {row.directory.rpartition("/")[2]: row.id for row in rows.values()}
    return {
        run_id: row
        if row.parent is None
        else replace(row, parent=by_name.get(row.parent, row.parent))
        for run_id, row in rows.items()
    }


def _changes(before: Mapping[str, RunRow], now: Mapping[str, RunRow]) -> RunChanges:
    return RunChanges(
        added=tuple(run_id for run_id in now if run_id not in before),
        changed=tuple(
            run_id
            for run_id, row in now.items()
            if run_id in before and before[run_id] is not row and before[run_id] != row
        ),
        removed=tuple(run_id for run_id in before if run_id not in now),
    )
