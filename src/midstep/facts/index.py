"""The index of an outputs root: every run in a list, without reading it all again.

Facts on disk are the only truth. The index remembers what it made of them, in memory and in the
user's cache folder; each look compares sizes, times and tails, and reads on where a file grew. A
run's state is never remembered: it is asked for at every look.
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

from midstep.facts.curves import Axis, Curve, CurveShelf
from midstep.facts.digest import WRONG, RunDigest
from midstep.facts.ends import LeaseWatch
from midstep.facts.history import EpochHistory
from midstep.facts.index_cache import IndexCache, KeptRow, cache_file
from midstep.facts.listing import list_run_folders
from midstep.facts.lock import lock_holder
from midstep.facts.own_files import disk_bytes
from midstep.facts.run_query import RunPage, RunQuery, select
from midstep.facts.run_row import (
    RunRow,
    current_row,
    derived_id,
    facts_row,
    unreadable_row,
    wrote_on,
)

__all__ = ["Changes", "RunIndex"]

KEEP_EVERY_S = 2.0
"""How often changes go to the cache folder: a live run changes with every look."""
COUNT_S = 0.1
"""How long a look may count bytes of directories; what is left over is counted by the next."""

_log = logging.getLogger("midstep.facts")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a look found different from the one before; ids of runs."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class RunIndex:
    """The runs under a folder. Safe to use from several threads.

    Args:
        root: the outputs folder.
        cache: file of the index; None: one in the user's cache folder, `memory`: none at all.
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
        watch: LeaseWatch | None = None,
    ) -> None:
        self.root = Path(root)
        path = cache_file(root) if cache is None else cache
        self._cache = IndexCache(None if path == "memory" else Path(path) if path else None)
        self._watch = watch or LeaseWatch()
        self._lock = threading.RLock()
        self._shelf = CurveShelf()
        self._digests: dict[str, RunDigest] = {}
        self._facts_rows: dict[str, tuple[RunRow, bool]] = {}
        """What the facts of a directory say, and whether that is all there is to ask."""
        self._rows: dict[str, RunRow] = {}
        self._directories: dict[str, str] = {}
        """By id, relative to the root, as the file system spells it."""
        self._unkept: set[str] = set()
        self._gone: set[str] = set()
        self._kept_at = math.inf
        self._is_loaded = False

    # -- looking ----------------------------------------------------------------------------------

    def refresh(self) -> Changes:
        """Look at the disk again."""
        with self._lock:
            self._load_once()
            self._digest_all()
            self._count_bytes()
            changes = self._list()
            if self._kept_at == math.inf:  # a first look is waited for: the next one keeps it
                self._kept_at = -math.inf
            elif time.monotonic() - self._kept_at >= KEEP_EVERY_S:
                self.keep()
            return changes

    def _load_once(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        for directory, row in self._cache.load().items():
            try:
                digest = RunDigest.of_json(json.loads(row.digest), row.history)
            except (ValueError, TypeError, KeyError) as error:
                _log.warning("the index of %s is made anew: %s", directory, error)
                continue
            self._digests[directory] = digest

    def _digest_all(self) -> None:
        found = list_run_folders(self.root)
        for directory in self._digests.keys() - set(found):
            self._forget(directory)
        base = os.fspath(self.root)
        for directory in found:
            digest = self._digests.get(directory)
            if digest is None:
                digest = self._digests[directory] = RunDigest()
            if digest.update(f"{base}/{directory}"):
                self._facts_rows.pop(directory, None)
                self._unkept.add(directory)

    def _forget(self, directory: str) -> None:
        del self._digests[directory]
        self._facts_rows.pop(directory, None)
        self._unkept.discard(directory)
        self._gone.add(directory)

    def _count_bytes(self) -> None:
        """Bytes of the directories that changed, as many as there is time for."""
        until = time.monotonic() + COUNT_S
        for directory, digest in self._digests.items():
            if digest.disk_bytes is None:
                digest.disk_bytes = disk_bytes(f"{os.fspath(self.root)}/{directory}")
                self._facts_rows.pop(directory, None)
                self._unkept.add(directory)
                if time.monotonic() >= until:
                    return

    def _list(self) -> Changes:
        """Rows and ids as of now."""
        rows: dict[str, RunRow] = {}
        directories: dict[str, str] = {}
        for directory in sorted(self._digests, key=self._claim):
            if self._is_nameless(directory):
                continue
            try:
                row = self._row(directory)
            except WRONG as error:  # records of the right form with odd values in them
                why = f"its facts make no sense: {type(error).__name__}: {error}"
                row = unreadable_row(directory, why)
            if row.id in rows:
                row = _copy_of(row, directory, rows[row.id])
            rows[row.id], directories[row.id] = row, directory
        before, self._rows, self._directories = self._rows, _with_parents(rows), directories
        return _changes(before, self._rows)

    def _is_nameless(self, directory: str) -> bool:
        """Whether a process has just taken the directory and not yet written which run it is.

        Listed under an id of its folder it would be another run at the next look.
        """
        digest = self._digests[directory]
        if (
            digest.has_lease
            or digest.events.records
            or any(each.rows for each in digest.steps.values())
        ):
            return False
        return lock_holder(self.root / directory) is not None

    def _claim(self, directory: str) -> tuple[bool, str]:
        """Of two directories with one id the live one has it, else the first by name."""
        return not self._digests[directory].has_lease, directory

    def _row(self, directory: str) -> RunRow:
        digest = self._digests[directory]
        known, is_settled = self._facts_rows.get(directory, (None, False))
        if known is not None and is_settled and not digest.has_lease:
            return known
        if known is None or is_settled:
            known = facts_row(directory, digest)
        folder = self.root / directory
        row = current_row(known, folder, digest, self._watch)
        if not row.live and wrote_on(folder, digest):  # and has ended since it was read
            digest.update(os.fspath(folder))
            known = facts_row(directory, digest)
            row = current_row(known, folder, digest, self._watch)
        # An end on record stands until the files change, or somebody takes the run up again.
        is_settled = digest.events.end is not None and not digest.has_lease
        self._facts_rows[directory] = (row if is_settled else known, is_settled)
        return row

    # -- answers ----------------------------------------------------------------------------------

    def rows(self, query: RunQuery | None = None) -> RunPage:
        """The runs that a query asks for, as of the last `refresh`."""
        with self._lock:
            rows = list(self._rows.values())
        return select(rows, query or RunQuery())

    def row(self, run_id: str) -> RunRow | None:
        """One run as of the last `refresh`; None for an id that is not listed."""
        with self._lock:
            return self._rows.get(run_id)

    def directory(self, run_id: str) -> Path | None:
        """The directory of a listed run; None where a link was put in its place."""
        with self._lock:
            found = self._directories.get(run_id)
        if found is None:
            return None
        real = os.path.realpath(self.root)
        path = f"{real}/{found}"
        return self.root / found if os.path.realpath(path) == path else None

    def histories(self, run_ids: Iterable[str] | None = None) -> dict[str, EpochHistory]:
        """What the epochs of each run came to; of all runs when no ids are given."""
        with self._lock:
            wanted = list(self._rows) if run_ids is None else list(run_ids)
            return {
                run_id: self._history(self._directories[run_id])
                for run_id in wanted
                if run_id in self._directories
            }

    def curves(
        self, run_ids: Iterable[str], name: str, *, x: Axis = "step", points: int = 500
    ) -> dict[str, Curve]:
        """One series of several runs, to be drawn over each other; runs without it are left out.

        Args:
            run_ids: which runs.
            name: of the series: a scalar of steps, or a value of epoch records.
            x: `step`, `epoch` (finished epochs) or `time` (seconds since the run began).
            points: the most of each; beyond that min/max buckets.
        """
        found = {}
        for run_id in run_ids:
            row, folder = self.row(run_id), self.directory(run_id)
            if row is None or folder is None:
                continue
            found[run_id] = self._shelf.draw(
                folder,
                name,
                x=x,
                points=points,
                began_at=row.started_at,
                epochs=partial(self._epochs, run_id),
            )
        return {run_id: curve for run_id, curve in found.items() if curve is not None}

    def _epochs(self, run_id: str) -> EpochHistory:
        return self.histories([run_id]).get(run_id) or EpochHistory()

    def _history(self, directory: str) -> EpochHistory:
        digest = self._digests[directory]
        before = digest.history_offset
        found = digest.epochs(f"{os.fspath(self.root)}/{directory}")
        if digest.history_offset != before:
            self._unkept.add(directory)
        return found

    # -- keeping ----------------------------------------------------------------------------------

    def keep(self) -> None:
        """Put what changed into the cache folder."""
        with self._lock:
            rows = {
                directory: KeptRow(
                    json.dumps(self._digests[directory].as_json()).encode(),
                    self._digests[directory].history,
                )
                for directory in self._unkept
            }
            if self._cache.store(rows, self._gone):
                self._unkept, self._gone = set(), set()
            self._kept_at = time.monotonic()

    def close(self) -> None:
        """Keep what is not kept yet; the index can still be used."""
        self.keep()


def _copy_of(row: RunRow, directory: str, first: RunRow) -> RunRow:
    """A directory whose run has the id of another one, as when it was copied."""
    said = f"it has the id of {first.directory}, too: a copy"
    why = said if row.why is None else f"{row.why}; {said}"
    return replace(row, id=derived_id(directory), why=why)


def _with_parents(rows: Mapping[str, RunRow]) -> dict[str, RunRow]:
    """A parent is told by its id, where it is listed."""
    by_name = {row.directory.rpartition("/")[2]: row.id for row in rows.values()}
    return {
        run_id: row
        if row.parent is None
        else replace(row, parent=by_name.get(row.parent, row.parent))
        for run_id, row in rows.items()
    }


def _changes(before: Mapping[str, RunRow], now: Mapping[str, RunRow]) -> Changes:
    return Changes(
        added=tuple(run_id for run_id in now if run_id not in before),
        changed=tuple(
            run_id
            for run_id, row in now.items()
            if run_id in before and before[run_id] is not row and before[run_id] != row
        ),
        removed=tuple(run_id for run_id in before if run_id not in now),
    )
