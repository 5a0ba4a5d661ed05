"""A run as its directory tells: finished, killed, on another host, or live and silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from midstep.control import DebugController
from midstep.control.shared import End
from midstep.facts import FactsReader, FactsTail
from midstep.facts.ends import EndState, LeaseWatch, end_state
from midstep.facts.lease import read_lease
from midstep.facts.places import events_path
from midstep.facts.run_row import MOVING
from midstep.server.lanes import SILENT_S, find_lane, silence_s
from midstep.server.problems import Refusal
from midstep.server.run_table import RunEntry

if TYPE_CHECKING:
    from midstep.server.stored_controller import StoredController

__all__ = ["StoredEntry", "StoredFacts", "StoredRun"]

LOOK_EVERY_S = 0.5
"""How often the true state is asked for at most: it takes a look at the disk."""
RENEW_EVERY_S = 5.0
"""How often the controller of a run that goes on elsewhere is put together anew at most."""
GOING = frozenset({"running", "not responding"})
SAID = frozenset({"finished", "stopped", "failed"})
"""Ends that are on record, with all there is to know."""
_watch = LeaseWatch()


class StoredFacts:
    """How far the facts on disk go. Safe to use from several threads."""

    def __init__(self, run_dir: Path, header: Mapping[str, Any]) -> None:
        self._tail = FactsTail(run_dir)
        self._timeline = 0
        self._lock = threading.Lock()
        self.attempt = int(header.get("attempt") or 1)
        """The last start of the run."""

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        with self._lock:
            for item in self._tail.poll():
                self._timeline = max(self._timeline, item.timeline)
            return self._tail.last_seq

    @property
    def timeline(self) -> int:
        """How often the run was taken back."""
        _ = self.seq  # looks at the disk
        return self._timeline


class StoredRun:
    """What the server needs of a run (`RunLike`), from its directory; nothing is written.

    Args:
        run_id: as it is listed.
        run_dir: the run directory.
    """

    def __init__(self, run_id: str, run_dir: Path) -> None:
        header = FactsReader(run_dir).header()
        self.run_id, self.dir = run_id, run_dir
        self.name = str(header.get("name") or run_dir.name)
        self.started_at = float(header.get("wall") or 0.0)
        self.facts = StoredFacts(run_dir, header)
        self._controller: StoredController | None = None
        self._made_at, self._stamp = float("-inf"), (0, "")
        self._lock = threading.Lock()

    def end(self) -> EndState:
        """What became of it, asked for now."""
        found = end_state(self.dir, watch=_watch)
        age_s = silence_s(self.dir) if found.state == "running" else None
        if age_s is not None and age_s > SILENT_S:
            return EndState("not responding", f"no heartbeat for {age_s:.0f} s")
        return found

    @property
    def controller(self) -> DebugController:
        """What can be looked at; put together when first asked for."""
        from midstep.server.restoring import restore

        with self._lock:
            if self._controller is None or self._is_outdated():
                found = self.end()
                self._made_at, self._stamp = time.monotonic(), (_size(self.dir), found.state)
                end = found.state if found.state in get_args(End) else "out of reach"
                lease = read_lease(self.dir) if found.state not in SAID else None
                self._controller = restore(self.dir, cast("End", end), found.reason, lease or {})
            return self._controller

    def _is_outdated(self) -> bool:
        """Whether more has happened since the controller was put together."""
        is_due = time.monotonic() - self._made_at >= RENEW_EVERY_S
        return is_due and (_size(self.dir), self.end().state) != self._stamp


def _size(run_dir: Path) -> int:
    try:
        return events_path(run_dir, 0, 0).stat().st_size
    except OSError:
        return 0


class StoredEntry(RunEntry):
    """A stored run with what readers share."""

    run: StoredRun

    def __init__(self, run: StoredRun) -> None:
        super().__init__(run)
        self._end, self._looked_at = EndState("lost"), float("-inf")
        self._has_moved = False

    @property
    def has_moved(self) -> bool:
        """Whether its own process can be asked now."""
        return self._has_moved

    @property
    def is_live(self) -> bool:
        """Whether a process still holds it, here or elsewhere."""
        return self.end().state in GOING

    def end(self) -> EndState:
        """What became of it, as of half a second ago at most."""
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self._end, self._looked_at = self.run.end(), time.monotonic()
            self._has_moved = self._end.state == "running" and find_lane(self.run.dir) is not None
        return self._end

    def _state_now(self) -> dict[str, Any]:
        """The state in which it was left, with its true end; a live one's is not known here."""
        end = self.end()
        state = self.controller.get_state()
        state |= {"state": end.state, "stopped": end.state == "stopped"}
        if end.state in GOING:
            lease = read_lease(self.run.dir) or {}
            state |= {"step": lease.get("step") or state["step"], "parked": False}
            if end.state == "running" and lease.get("state") in MOVING:
                state["state"] = lease["state"]
        state["reason"] = end.reason if end.reason is not None else state["reason"]
        return {**state, "offers": [], "boundary_age_s": 0.0}

    def check_open(self) -> None:
        """Commands do not arrive: it has ended, or cannot be reached from here."""
        end = self.end()
        if end.state in GOING:
            raise Refusal(
                409,
                "out_of_reach",
                "The run cannot be reached from here: it runs on another host, under another "
                "user, or without a socket. It is shown from its facts, read-only.",
            )
        why = "" if end.reason is None else f": {end.reason}"
        raise Refusal(409, end.state, f"The run has ended ({end.state}{why}).")
