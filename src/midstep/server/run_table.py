"""The runs this server can reach, by id."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.server.problems import Refusal, not_found

if TYPE_CHECKING:
    from midstep.facts import SeriesStore

__all__ = ["RunEntry", "RunLike", "RunTable"]

T = TypeVar("T")
NOT_RESPONDING_S = 10.0
"""Without a boundary for this long a run is said not to respond."""


class RunLike(Protocol):
    """What the server needs of a run; `session.Run` has it."""

    @property
    def run_id(self) -> str:
        """Drawn once per run."""
        ...

    @property
    def name(self) -> str:
        """What the user called it."""
        ...

    @property
    def dir(self) -> Path:
        """Its run directory."""
        ...

    @property
    def controller(self) -> Any:
        """The gate of its loop."""
        ...

    @property
    def facts(self) -> Any:
        """Its facts writer."""
        ...

    @property
    def started_at(self) -> Any:
        """When it began."""
        ...


class RunEntry:
    """A run with what readers share: one store of its series, behind one lock."""

    def __init__(self, run: RunLike) -> None:
        self.run = run
        self.controller = run.controller
        self._store: SeriesStore | None = None
        self._store_lock = threading.Lock()
        self._header: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        return int(self.run.facts.seq)

    def state(self) -> dict[str, Any]:
        """The controller's state, and "not responding" when no boundary came for a while."""
        state: dict[str, Any] = self.controller.get_state()
        moving = state["state"] in ("running", "stepping", "pausing")
        if moving and state["boundary_age_s"] >= NOT_RESPONDING_S and not _busy_elsewhere(state):
            state["state"] = "not responding"
        return state

    def header(self) -> dict[str, Any]:
        """The first record of the run; it never changes, so it is read once."""
        from midstep.facts import FactsReader

        if not self._header:
            self._header = dict(FactsReader(self.run.dir).header())
        return self._header

    def with_store(self, ask: Callable[[SeriesStore], T]) -> T:
        """`ask(store)` on the refreshed store; readers wait for each other, never for training."""
        from midstep.facts import SeriesStore

        with self._store_lock:
            if self._store is None:
                self._store = SeriesStore(self.run.dir)
            self._store.refresh()
            return ask(self._store)


class RunTable:
    """Runs by id. Lookups go through this listing; an id is never joined to a path."""

    def __init__(self) -> None:
        self._entries: dict[str, RunEntry] = {}
        self._lock = threading.Lock()

    def add(self, run: RunLike) -> RunEntry:
        """Make a run reachable."""
        entry = RunEntry(run)
        with self._lock:
            self._entries[entry.id] = entry
        return entry

    def remove(self, run_id: str) -> None:
        """Forget a run; unknown ids are fine."""
        with self._lock:
            self._entries.pop(run_id, None)

    def entries(self) -> list[RunEntry]:
        """All runs, newest first."""
        with self._lock:
            return list(self._entries.values())[::-1]

    def get(self, run_id: str) -> RunEntry:
        """The run of this id, or a 404 that is the same for every wrong id."""
        with self._lock:
            entry = self._entries.get(run_id)
        if entry is None:
            raise not_found()
        return entry

    def only(self) -> RunEntry:
        """The one live run, for the short addresses."""
        entries = self.entries()
        if len(entries) > 1:
            names = ", ".join(entry.id for entry in entries[:8])
            raise Refusal(
                409,
                "several_runs",
                f"{len(entries)} runs are live ({names}). "
                "Use /api/v1/runs/{id}/debug/… to say which one.",
            )
        if not entries:
            raise not_found()
        return entries[0]

    def by_id(self) -> Mapping[str, RunEntry]:
        """A copy of the listing."""
        with self._lock:
            return dict(self._entries)


def _busy_elsewhere(state: Mapping[str, Any]) -> bool:
    """Whether the loop has said what it does between boundaries: validation, a checkpoint."""
    return state["waiting_for"] not in (None, "the step in progress")
