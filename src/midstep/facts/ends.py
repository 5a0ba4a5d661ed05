"""How a run ended, or that it has not: from its facts, its lease and its lock."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from midstep.core.moments import Moment
from midstep.facts.lease import read_lease
from midstep.facts.lines import EventsScanner, Line, check_line
from midstep.facts.lock import Holder, boot_id, lock_holder, lock_note
from midstep.facts.places import events_path

__all__ = ["EndState", "LeaseWatch", "State", "end_state", "end_state_after", "written_bytes"]

State = Literal["running", "not responding", "finished", "stopped", "failed", "killed", "lost"]

STALE_AFTER_S = 10.0
BEATLESS_S = 8.0
"""On this machine a heartbeat comes each second: so long without one is told within ten."""
STALE_AT_FIRST_SIGHT_S = 60.0
TAIL_BYTES = 64 << 10
_TURNING = (Moment.START, Moment.TRAIN_END, Moment.EXCEPTION)


@dataclass(frozen=True, slots=True)
class EndState:
    """What became of a run."""

    state: State
    reason: str | None = None
    """One line, for people."""


class LeaseWatch:
    """Says for how long a lease has stood still, by the reader's own monotonic clock.

    On the machine that wrote it that clock is the writer's too, so the first look knows. Leases
    of other machines are remembered: their age counts from the look that first met them so.
    """

    def __init__(self, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seen: OrderedDict[tuple[str, str], tuple[Any, float]] = OrderedDict()
        self._most, self._clock = most, clock
        self._lock = threading.Lock()

    def heartbeat_age_s(self, run_dir: str | Path, lease: dict[str, Any]) -> float | None:
        """Seconds since the last heartbeat; None when that is not known yet."""
        return self._age_s(run_dir, lease, "heartbeat")

    def boundary_age_s(self, run_dir: str | Path, lease: dict[str, Any]) -> float | None:
        """Seconds since the loop last reached a boundary; None when none is due, or not known."""
        return self._age_s(run_dir, lease, "boundary") if lease.get("moving") is True else None

    def _age_s(self, run_dir: str | Path, lease: dict[str, Any], what: str) -> float | None:
        now, stamp = self._clock(), lease.get(f"{what}_mono")
        here = (lease.get("host"), lease.get("boot_id")) == (platform.node(), boot_id())
        if here and isinstance(stamp, int | float):
            return max(0.0, now - stamp)
        # The stamp of another machine's clock is no time for us, but it changes when it should.
        seen = (lease.get("pid"), lease.get("started"), lease.get("heartbeat"))
        if what == "boundary":
            seen = (*seen[:2], stamp)
        return self._remembered_s((os.path.realpath(run_dir), what), seen, now)

    def _remembered_s(self, key: tuple[str, str], seen: Any, now: float) -> float | None:
        with self._lock:
            known = self._seen.get(key)
            if known is not None and known[0] == seen:
                self._seen.move_to_end(key)
                return now - known[1]
            self._seen[key] = (seen, now)
            self._seen.move_to_end(key)
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
            return None if known is None else 0.0


_watch = LeaseWatch()


def end_state(run_dir: str | Path, *, watch: LeaseWatch = _watch) -> EndState:
    """The true state of a run directory; a stale "running" is never among the answers.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.event("on_train_end", status="finished")
    1
    >>> end_state(folder).state
    'finished'
    """
    while True:
        size = written_bytes(run_dir)
        found = end_state_after(run_dir, _last_turning(run_dir), watch=watch)
        # A run that is let go between the two reads has said before how it ended.
        if found.state in ("running", "not responding") or written_bytes(run_dir) == size:
            return found


def written_bytes(run_dir: str | Path) -> int:
    """How much of its events a run has written."""
    try:
        return events_path(run_dir, 0, 0).stat().st_size
    except OSError:
        return 0


def end_state_after(
    run_dir: str | Path, turning: Mapping[str, Any] | None, *, watch: LeaseWatch = _watch
) -> EndState:
    """The same for whoever knows the last start or end record already."""
    said = _said(turning)
    if said is not None:
        return said
    lease = read_lease(run_dir)
    if lock_holder(run_dir) is not None:
        return _held(run_dir, lease, watch)
    owner = _owner(lease) or lock_note(run_dir)
    if owner is None:
        return _without_owner(run_dir)
    if owner.host != platform.node():
        return _elsewhere(run_dir, lease, owner, watch)
    if owner.boot_id != boot_id():
        return EndState("lost", f"{owner.host} was restarted while it ran")
    return EndState("killed", f"process {owner.pid} ended without a word")


def _said(record: Mapping[str, Any] | None) -> EndState | None:
    """The end as the run itself recorded it."""
    if record is None or record["moment"] == Moment.START:
        return None
    if record["moment"] == Moment.EXCEPTION:
        reason = record.get("error") or record.get("reason") or record.get("message")
        return EndState("failed", None if reason is None else str(reason))
    status, reason = record.get("status"), record.get("reason")
    state: State = status if status in {"stopped", "failed"} else "finished"
    return EndState(state, None if reason is None else str(reason))


def _held(run_dir: str | Path, lease: dict[str, Any] | None, watch: LeaseWatch) -> EndState:
    """A living process holds the lock."""
    if lease is None:
        return EndState("running")
    age_s = watch.heartbeat_age_s(run_dir, lease)
    if age_s is not None and age_s > BEATLESS_S:
        return EndState("not responding", f"no heartbeat for {age_s:.0f} s")
    return _hung(run_dir, lease, watch) or EndState("running")


def _hung(run_dir: str | Path, lease: dict[str, Any], watch: LeaseWatch) -> EndState | None:
    """The process lives, but its loop reaches no boundary and has not said why."""
    age_s = watch.boundary_age_s(run_dir, lease)
    if age_s is None or age_s < STALE_AFTER_S:
        return None
    step = lease.get("step")
    return EndState("not responding", f"no step boundary for {age_s:.0f} s, after step {step}")


def _elsewhere(
    run_dir: str | Path, lease: dict[str, Any] | None, owner: Holder, watch: LeaseWatch
) -> EndState:
    """On another host locks may not reach us: the heartbeat decides."""
    if lease is None:
        return EndState("lost", f"it ran on {owner.host} and left no lease")
    age_s = watch.heartbeat_age_s(run_dir, lease)
    if age_s is not None:
        is_stale = age_s > STALE_AFTER_S
    else:  # the clocks of two hosts may differ; from the second look on only ours counts
        is_stale = abs(time.time() - _number(lease.get("heartbeat_wall"))) > STALE_AT_FIRST_SIGHT_S
    if is_stale:
        return EndState("lost", f"no heartbeat from {owner.host}, where it ran")
    return _hung(run_dir, lease, watch) or EndState("running", f"on {owner.host}")


def _without_owner(run_dir: str | Path) -> EndState:
    if not events_path(run_dir, 0, 0).exists():
        return EndState("lost", "there are no facts in it")
    return EndState("stopped", "it was closed without an end record")


def _owner(lease: dict[str, Any] | None) -> Holder | None:
    if lease is None:
        return None
    return Holder(
        int(_number(lease.get("pid"))),
        str(lease.get("host")),
        str(lease.get("boot_id")),
        _number(lease.get("started")),
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _last_turning(run_dir: str | Path) -> dict[str, Any] | None:
    """The last start or end record; the end of the file is tried first."""
    path = events_path(run_dir, 0, 0)
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    found = _find_turning(check_line(raw) for raw in reversed(lines))
    if found is None and size > TAIL_BYTES:
        found = _find_turning(reversed(list(EventsScanner(path).read())))
    return found


def _find_turning(lines: Iterable[Line | None]) -> dict[str, Any] | None:
    for line in lines:
        if line is not None and any(moment.encode() in line.raw for moment in _TURNING):
            record = line.record()
            if record["moment"] in _TURNING:
                return record
    return None
