"""The lock of a run directory: one process writes, and the kernel knows whether it lives.

It is a POSIX record lock (`lockf`) on `facts/.lock`. Forked loader workers do not inherit such a
lock, unlike one of `flock`, which looked alive after the training was killed. The kernel releases
the lock when the process ends, however that happens. It also releases the lock when the process
closes *any* descriptor of the file, so only this module opens it, once per process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import struct
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from midstep.core import strict_json
from midstep.core.errors import RunHeldError
from midstep.core.files.storage import storage_error, storage_errors
from midstep.core.files.untrusted_files import open_in_folder
from midstep.facts.format.paths import ensure_facts_dir, lock_path

# `struct flock` of the C library, whose fields have another order on macOS:
# start, length, pid, type, whence; on Linux type, whence, start, length, pid.
_FLOCK = struct.Struct("qqihh" if sys.platform == "darwin" else "hhqqi4x")
_held: dict[str, RunLock] = {}
_guard = threading.Lock()


class LockHolder(NamedTuple):
    """The process that holds, or last held, a run directory."""

    pid: int
    host: str
    boot_id: str
    since: float

    def describe(self) -> str:
        """For example `process 4711 on node7 since 2026-01-02 03:04:05 UTC`."""
        since = datetime.fromtimestamp(self.since, UTC)
        return f"process {self.pid} on {self.host} since {since:%Y-%m-%d %H:%M:%S} UTC"


def boot_id() -> str:
    """A value that changes with every boot of this machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class RunLock:
    """A held lock. Acquired again in the same process, it is shared until the last release."""

    def __init__(self, key: str, descriptor: int) -> None:
        # lease and facts writer of one run hold the same lock, so its uses are counted
        self._key, self._descriptor, self._uses = key, descriptor, 1
        self._pid = os.getpid()

    @classmethod
    def acquire(cls, run_dir: str | Path, *, is_shared: bool = True) -> RunLock:
        """Take the lock of a run directory.

        Args:
            run_dir: the run directory.
            is_shared: share a lock that this process holds already; if False, that is an error.

        Raises:
            RunHeldError: if another process has it; the message names process, host and time.
        """
        ensure_facts_dir(run_dir)
        path, key = lock_path(run_dir), _key(run_dir)
        with _guard:
            if key not in _held:
                _held[key] = cls(key, _open_locked(path))
            elif is_shared:
                _held[key]._uses += 1
            else:
                raise RunHeldError(
                    f"run directory {run_dir} is being written by this process ({os.getpid()}); "
                    "end the run first"
                )
            return _held[key]

    def release(self) -> None:
        """Give back one use; the last one frees the run directory."""
        if self._pid != os.getpid():  # a forked child: the lock is the parent's
            return
        with _guard:
            self._uses -= 1
            if self._uses == 0:
                _held.pop(self._key, None)
                # An empty note means a clean end: `last_holder` reports a killed process otherwise.
                with suppress(OSError):  # also on a full or vanished disk the lock must be released
                    os.ftruncate(self._descriptor, 0)
                os.close(self._descriptor)


def _key(run_dir: str | Path) -> str:
    """The path of the lock by the real path of its run; the lock itself is never a link."""
    return str(lock_path(os.path.realpath(run_dir)))


def _open_locked(path: Path) -> int:
    with storage_errors(path, "open"):
        descriptor = open_in_folder(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _check_one_name(descriptor)
        note = LockHolder(os.getpid(), platform.node(), boot_id(), time.time())._asdict()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, strict_json.dumps(note).encode(), 0)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:  # POSIX allows either for a held lock
            refusal = _refusal(path, descriptor)
            os.close(descriptor)
            raise refusal from None
        os.close(descriptor)
        raise storage_error(path, "lock", error) from error
    return descriptor


def _check_one_name(descriptor: int) -> None:
    """Refuse a hard link: writing a note would change a file of another folder."""
    if os.fstat(descriptor).st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name, too (it is a hard link)")


def _refusal(path: Path, descriptor: int) -> RunHeldError:
    holder = _parse(os.pread(descriptor, 4096, 0))
    who = holder.describe() if holder else f"process {_lock_pid(descriptor) or 'unknown'}"
    refusal = RunHeldError(
        f"run directory {path.parent.parent} is being written by {who}; "
        "stop that process, or choose another run_name"
    )
    refusal.errno = errno.EAGAIN
    return refusal


def _lock_pid(descriptor: int) -> int | None:
    """The process that holds the lock, read without taking it; None if no process does."""
    if sys.platform == "darwin":
        request = _FLOCK.pack(0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, pid, kind, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    else:
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    return None if kind == fcntl.F_UNLCK else int(pid)


def lock_holder(run_dir: str | Path) -> int | None:
    """The id of the process that writes the run directory now; None if no process does.

    0 means a process that has no id here: it runs in another container or on another host.
    """
    path = lock_path(run_dir)
    with _guard:
        # F_GETLK does not report a lock of the process itself, and closing the descriptor opened
        # below would release that lock.
        if _key(run_dir) in _held:
            return os.getpid()
        try:
            descriptor = open_in_folder(path)
        except OSError:
            return None
        try:
            pid = _lock_pid(descriptor)
        except OSError:  # a file system without locks, so no process can hold one
            return None
        finally:
            os.close(descriptor)
    return None if pid is None else max(pid, 0)


def last_holder(run_dir: str | Path) -> LockHolder | None:
    """The note of the last holder. It remains if the holder was killed, not if it released."""
    path = lock_path(run_dir)
    with _guard:
        lock = _held.get(_key(run_dir))
        if lock is not None:
            return _parse(os.pread(lock._descriptor, 4096, 0))
        try:
            descriptor = open_in_folder(path)
        except OSError:
            return None
        try:
            return _parse(os.pread(descriptor, 4096, 0))
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _parse(data: bytes) -> LockHolder | None:
    try:
        note: dict[str, Any] = strict_json.loads(data)
        since = float(note["since"])
        return LockHolder(
            int(note["pid"]),
            str(note["host"]),
            str(note["boot_id"]),
            since if abs(since) < 1e11 else 0.0,  # later than the calendar of `datetime` ends
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _forget_in_child() -> None:
    """In a forked child: forget the parent's locks and close the copies of their descriptors.

    The child never had the locks, so closing its copies releases nothing.
    """
    global _guard  # noqa: PLW0603 - the lock may have been held by another thread of the parent
    _guard = threading.Lock()
    for lock in _held.values():
        with suppress(OSError):
            os.close(lock._descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
