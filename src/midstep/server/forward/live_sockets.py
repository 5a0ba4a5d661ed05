"""Find the Unix socket of a live run, and trust it only if it belongs to this user."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_liveness import HeartbeatWatch
from midstep.facts.liveness.run_lock import boot_id, lock_holder

SILENT_S = 5.0
"""A run writes a heartbeat once a second. After five missed ones requests no longer wait for it."""
_watch = HeartbeatWatch()


@dataclass(frozen=True, kw_only=True)
class LiveSocket:
    """Where a live run answers."""

    run_dir: Path
    socket: str
    """Path of its Unix socket."""
    pid: int
    """The process that holds the lock of the run."""


def find_live_socket(run_dir: Path) -> LiveSocket | None:
    """The socket of a run; None when it has ended, is on another machine, or has no socket."""
    lease = read_lease(run_dir)
    if lease is None or not _is_here(lease):
        return None
    # The kernel knows who holds the lock. The lease alone may be left over from a killed run.
    path, pid = lease.get("socket"), lock_holder(run_dir)
    if pid is None or not isinstance(path, str) or not _is_own_socket(Path(path)):
        return None
    return LiveSocket(run_dir=run_dir, socket=path, pid=pid)


def heartbeat_age_s(run_dir: Path) -> float | None:
    """Seconds since the last heartbeat of a run; None without a lease."""
    lease = read_lease(run_dir)
    return None if lease is None else _watch.heartbeat_age_s(run_dir, lease)


def _is_here(lease: Mapping[str, Any]) -> bool:
    # The boot id as well: after a restart, a lease of this host names a process that is gone.
    return (lease.get("host"), lease.get("boot_id")) == (platform.node(), boot_id())


def _is_own_socket(path: Path) -> bool:
    """Whether only this user can have created the socket at `path`."""
    # Run directories may be shared, so anybody may have written the path into the lease. A token
    # must not be sent to a socket that another user can replace.
    if not path.is_absolute():
        return False
    try:
        status, folder = path.lstat(), path.parent.lstat()
    except OSError:
        return False
    is_private = stat.S_ISDIR(folder.st_mode) and not folder.st_mode & 0o077
    is_own = status.st_uid == folder.st_uid == os.geteuid()
    return stat.S_ISSOCK(status.st_mode) and is_private and is_own
