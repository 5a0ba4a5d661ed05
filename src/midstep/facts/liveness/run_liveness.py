"""The state of a run: running, finished, failed, killed or lost.

It is derived at every call from the last start or end record, the lock and the lease, so a stale
"running" is never reported.
"""

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

from midstep.core.files.untrusted_files import open_in_folder
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import EventLine, check_line
from midstep.facts.format.paths import events_path
from midstep.facts.format.scanners import EventsScanner
from midstep.facts.format.version_one import upcast_line
from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_lock import LockHolder, boot_id, last_holder, lock_holder

State = Literal["running", "not responding", "finished", "stopped", "failed", "killed", "lost"]

STALE_AFTER_S = 10.0
"""Seconds without a heartbeat from another host, or without a step boundary of a moving loop."""
HEARTBEAT_LATE_S = 8.0
"""Seconds without a heartbeat on this machine, where one comes every second."""
STALE_AT_FIRST_READ_S = 60.0
"""How far the wall clocks of two hosts may differ. They count only when a lease is first read."""
TAIL_BYTES = 64 << 10
"""The end of an events file, where the last start or end record usually is."""
_START_OR_END = (Moment.START, Moment.TRAIN_END, Moment.EXCEPTION)


@dataclass(frozen=True, slots=True)
class EndState:
    """The state of a run, and why."""

    state: State
    reason: str | None = None
    """One line for people."""


class HeartbeatWatch:
    """How long a lease has not changed, by the monotonic clock of the reader.

    On the machine that wrote the lease, reader and writer share this clock, so the first call gives
    the age. Leases of other machines are remembered: their age counts from the call that first saw
    the content they still have.
    """

    def __init__(self, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seen: OrderedDict[tuple[str, str], tuple[Any, float]] = OrderedDict()
        self._most, self._clock = most, clock
        self._lock = threading.Lock()

    def heartbeat_age_s(self, run_dir: str | Path, lease: dict[str, Any]) -> float | None:
        """Seconds since the last heartbeat; None if that is not known yet."""
        return self._age_s(run_dir, lease, "heartbeat")

    def boundary_age_s(self, run_dir: str | Path, lease: dict[str, Any]) -> float | None:
        """Seconds since the last step boundary; None if none is due, or not known."""
        return self._age_s(run_dir, lease, "boundary") if lease.get("moving") is True else None

    def _age_s(self, run_dir: str | Path, lease: dict[str, Any], what: str) -> float | None:
        now, stamp = self._clock(), lease.get(f"{what}_mono")
        here = (lease.get("host"), lease.get("boot_id")) == (platform.node(), boot_id())
        if here and isinstance(stamp, int | float):
            return max(0.0, now - stamp)
        # The monotonic clock of another machine says nothing here, but its stamp changes with
        # every heartbeat or boundary.
        seen = (lease.get("pid"), lease.get("started"), lease.get("heartbeat"))
        if what == "boundary":
            seen = (*seen[:2], stamp)
        return self._unchanged_s((os.path.realpath(run_dir), what), seen, now)

    def _unchanged_s(self, key: tuple[str, str], seen: Any, now: float) -> float | None:
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


_watch = HeartbeatWatch()


def end_state(run_dir: str | Path, *, watch: HeartbeatWatch = _watch) -> EndState:
    """The state of a run directory now.

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
        state = end_state_from(run_dir, _last_start_or_end(run_dir), watch=watch)
        # If the run ended between reading the record and checking the lock, it wrote its end
        # record before it released the lock. The file has grown then, so read it again: without
        # this, a run that ended well was reported as killed.
        if state.state in ("running", "not responding") or written_bytes(run_dir) == size:
            return state


def written_bytes(run_dir: str | Path) -> int:
    """Size of the events file of a run; 0 if there is none."""
    try:
        return events_path(run_dir, 0, 0).lstat().st_size
    except OSError:
        return 0


def end_state_from(
    run_dir: str | Path, record: Mapping[str, Any] | None, *, watch: HeartbeatWatch = _watch
) -> EndState:
    """`end_state` for a caller that has the last start or end record already."""
    recorded = _recorded_end(record)
    if recorded is not None:
        return recorded
    lease = read_lease(run_dir)
    if lock_holder(run_dir) is not None:
        return _locked(run_dir, lease, watch)
    owner = _owner(lease) or last_holder(run_dir)
    if owner is None:
        return _without_owner(run_dir)
    if owner.host != platform.node():
        return _on_other_host(run_dir, lease, owner, watch)
    if owner.boot_id != boot_id():
        return EndState("lost", f"{owner.host} was restarted while it ran")
    return EndState("killed", f"process {owner.pid} ended without a word")


def _recorded_end(record: Mapping[str, Any] | None) -> EndState | None:
    """The end that the run itself recorded; None if it recorded none."""
    if record is None or record["moment"] == Moment.START:
        return None
    if record["moment"] == Moment.EXCEPTION:
        reason = record.get("error") or record.get("reason") or record.get("message")
        return EndState("failed", None if reason is None else str(reason))
    status, reason = record.get("status"), record.get("reason")
    state: State = status if status in ("stopped", "failed") else "finished"
    return EndState(state, None if reason is None else str(reason))


def _locked(run_dir: str | Path, lease: dict[str, Any] | None, watch: HeartbeatWatch) -> EndState:
    """The state of a run whose lock a living process holds."""
    if lease is None:
        return EndState("running")
    age_s = watch.heartbeat_age_s(run_dir, lease)
    if age_s is not None and age_s > HEARTBEAT_LATE_S:
        return EndState("not responding", f"no heartbeat for {age_s:.0f} s")
    return _hung(run_dir, lease, watch) or EndState("running")


def _hung(run_dir: str | Path, lease: dict[str, Any], watch: HeartbeatWatch) -> EndState | None:
    """The state of a loop that should reach a step boundary and does not; else None."""
    age_s = watch.boundary_age_s(run_dir, lease)
    if age_s is None or age_s < STALE_AFTER_S:
        return None
    step = lease.get("step")
    return EndState("not responding", f"no step boundary for {age_s:.0f} s, after step {step}")


def _on_other_host(
    run_dir: str | Path, lease: dict[str, Any] | None, owner: LockHolder, watch: HeartbeatWatch
) -> EndState:
    """The state of a run on another host, by its heartbeat: locks may not work across hosts."""
    if lease is None:
        return EndState("lost", f"it ran on {owner.host} and left no lease")
    age_s = watch.heartbeat_age_s(run_dir, lease)
    if age_s is not None:
        is_stale = age_s > STALE_AFTER_S
    else:  # the clocks of two hosts may differ; from the second call on only our clock counts
        is_stale = abs(time.time() - _number(lease.get("heartbeat_wall"))) > STALE_AT_FIRST_READ_S
    if is_stale:
        return EndState("lost", f"no heartbeat from {owner.host}, where it ran")
    return _hung(run_dir, lease, watch) or EndState("running", f"on {owner.host}")


def _without_owner(run_dir: str | Path) -> EndState:
    if not events_path(run_dir, 0, 0).exists():
        return EndState("lost", "there are no facts in it")
    return EndState("stopped", "it was closed without an end record")


def _owner(lease: dict[str, Any] | None) -> LockHolder | None:
    if lease is None:
        return None
    return LockHolder(
        int(_number(lease.get("pid"))),
        str(lease.get("host")),
        str(lease.get("boot_id")),
        _number(lease.get("started")),
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _last_start_or_end(run_dir: str | Path) -> dict[str, Any] | None:
    """The last start or end record. The end of the file is searched first, then all of it."""
    # The events of a long run take megabytes, and a list calls this for every run.
    path = events_path(run_dir, 0, 0)
    try:
        descriptor = open_in_folder(path)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES)).split(b"\n")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    record = _find_start_or_end(check_line(raw) or upcast_line(raw, 1) for raw in reversed(lines))
    if record is None and size > TAIL_BYTES:
        for line in EventsScanner(path).read():  # one line in memory at a time
            record = _find_start_or_end([line]) or record
    return record


def _find_start_or_end(lines: Iterable[EventLine | None]) -> dict[str, Any] | None:
    for line in lines:
        # A search in the bytes first: parsing every line would take most of the time.
        if line is not None and any(moment.encode() in line.raw for moment in _START_OR_END):
            record = line.record()
            if record["moment"] in _START_OR_END:
                return record
    return None
