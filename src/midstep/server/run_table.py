"""The runs this server can reach, by id."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.control import DebugController
from midstep.server.problems import Refusal, not_found

if TYPE_CHECKING:
    from midstep.facts import FactsReader, SeriesStore

__all__ = ["RunEntry", "RunLike", "RunTable", "only_id"]

T = TypeVar("T")
ENDED = frozenset({"finished", "stopped", "failed"})
MEASURED = {"boundary_age_s": None, "steps_per_s": None}
"""What is another at every look, though nothing happened."""
NOT_RESPONDING_S = 10.0
"""Without a boundary for this long a run is said not to respond."""


class FactsLike(Protocol):
    """What the server needs of a run's facts; `FactsWriter` has it."""

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        ...

    @property
    def attempt(self) -> int:
        """Which start of the run this is, from 1."""
        ...

    @property
    def timeline(self) -> int:
        """How often the run was taken back."""
        ...


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
    def controller(self) -> DebugController:
        """The gate of its loop."""
        ...

    @property
    def facts(self) -> FactsLike:
        """Where its facts are."""
        ...

    @property
    def started_at(self) -> float:
        """When it began, in seconds since 1970."""
        ...


class RunEntry:
    """A run with what readers share: one store of its series, behind one lock."""

    def __init__(self, run: RunLike) -> None:
        self.run = run
        self._store: SeriesStore | None = None
        self._store_lock = threading.Lock()
        self._reader: FactsReader | None = None
        self._reader_lock = threading.Lock()
        self._header: dict[str, Any] = {}
        self._state_lock = threading.Lock()
        self._last_state: dict[str, Any] = {}
        self._state_number = 0

    @property
    def controller(self) -> DebugController:
        """The gate of its loop."""
        return self.run.controller

    @property
    def has_moved(self) -> bool:
        """Whether another process answers for it now, as of the last look at its state."""
        return False

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        return self.run.facts.seq

    @property
    def is_live(self) -> bool:
        """Whether its training goes on, or stands to be looked at."""
        return self.controller.get_state()["state"] not in ENDED

    def state(self) -> dict[str, Any]:
        """The state now, numbered by its changes: an answer and the stream may cross on the way."""
        with self._state_lock:
            state = self._state_now()
            lasting = {**state, **MEASURED}
            if lasting != self._last_state:
                self._last_state, self._state_number = lasting, self._state_number + 1
            return {**state, "number": self._state_number}

    def _state_now(self) -> dict[str, Any]:
        """The controller's state, and "not responding" when no boundary came for a while."""
        state = self.controller.get_state()
        moving = state["state"] in ("running", "stepping", "pausing")
        # A loop that has said what it does between boundaries, a validation say, is not stuck.
        said = self.controller.phase is not None
        if moving and not said and state["boundary_age_s"] >= NOT_RESPONDING_S:
            state["state"] = "not responding"
        return state

    def check_open(self) -> None:
        """Refuse with the reason where commands do not reach the run."""

    def header(self) -> dict[str, Any]:
        """The header record of this attempt; it never changes, so it is read once."""
        if not self._header:
            self._header = self._with_reader(lambda reader: reader.header())
        return self._header

    def events(self, after_seq: int, limit: int) -> list[dict[str, Any]]:
        """Events behind a number; the reader knows from earlier answers where to start."""
        return self._with_reader(lambda reader: reader.events(after_seq, limit))

    def _with_reader(self, ask: Callable[[FactsReader], T]) -> T:
        from midstep.facts import FactsReader

        with self._reader_lock:
            if self._reader is None:
                self._reader = FactsReader(self.run.dir)
            return ask(self._reader)

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

    in_memory = True
    """Whether a lookup never waits for a disk."""

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

    def folders(self) -> list[Path]:
        """The folders that hold their run directories."""
        return list(dict.fromkeys(entry.run.dir.parent for entry in self.entries()))

    def get(self, run_id: str) -> RunEntry:
        """The run of this id, or a 404 that is the same for every wrong id."""
        with self._lock:
            entry = self._entries.get(run_id)
        if entry is None:
            raise not_found()
        return entry

    def only(self) -> RunEntry:
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
