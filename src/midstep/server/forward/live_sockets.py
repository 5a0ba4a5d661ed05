"""The way to a live run: its Unix socket, trusted only if it is this user's own."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstep.facts.liveness.end_state import HeartbeatWatch
from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_lock import boot_id, lock_holder

SILENT_S = 5.0
"""A run beats once a second; after this long without one it is not waited for."""
_watch = HeartbeatWatch()


@dataclass(frozen=True, kw_only=True)
class LiveSocket:
    """Where a live run answers."""

    run_dir: Path
    socket: str
    """Path of its Unix socket."""
    pid: int
    """The process that holds the run: another one is another lane."""


def find_live_socket(run_dir: Path) -> LiveSocket | None:
    """The way to the run of a directory; None when it ended, is elsewhere, or has no socket."""
    lease = read_lease(run_dir)
    if lease is None or not _is_here(lease):
        return None
    path, pid = lease.get("socket"), lock_holder(run_dir)
    if pid is None or not isinstance(path, str) or not _is_own_socket(Path(path)):
        return None
    return LiveSocket(run_dir=run_dir, socket=path, pid=pid)


def heartbeat_age_s(run_dir: Path) -> float | None:
    """Seconds since the last heartbeat of a run; None when there is no lease to tell."""
    lease = read_lease(run_dir)
    return None if lease is None else _watch.heartbeat_age_s(run_dir, lease)


def _is_here(lease: Mapping[str, Any]) -> bool:
    return (lease.get("host"), lease.get("boot_id")) == (platform.node(), boot_id())


def _is_own_socket(path: Path) -> bool:
    """Whether nobody else can have put it there: a lease may lie where others write."""
    if not path.is_absolute():
        return False
    try:
        found, folder = path.lstat(), path.parent.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(folder.st_mode) and not folder.st_mode & 0o077
    ours = found.st_uid == folder.st_uid == os.geteuid()
    return stat.S_ISSOCK(found.st_mode) and private and ours
