"""The locks of a sweep: of the process that runs its cells, and of each cell that is starting.

The folder may come from a stranger. A file that is a link, or has a second name, may be the lock of
another sweep, and the process id in it may be any. So a process is signalled only if the kernel
says that it holds this lock.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from midstep.core.errors import ControlError, RunHeldError
from midstep.core.files.storage import storage_errors
from midstep.core.files.untrusted_files import (
    open_folder,
    open_regular,
    read_plain,
    refuse_second_name,
)

STARTS = ".jobs"
"""Folder of the files that the processes of cells keep locked until their run has begun."""
POOL_LOCK = ".pool.lock"
LOCK_WAIT_S = 0.5
"""How long a reader that tests a lock may hold it; readers hold it for microseconds."""
_PID_DIGITS = 20


def is_locked(path: Path) -> bool:
    """Whether a process holds the `flock` of a file."""
    # `flock` and not `lockf`: it belongs to the open file, so a child has it from the moment on
    # in which its parent starts it, and keeps it when the parent is killed.
    try:
        descriptor = _open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_holder_of(path: Path) -> int | None:
    """The process that holds the lock of a file; None if none does, 0 if it cannot be named."""
    if not is_locked(path):
        return None
    try:
        pid = int(read_plain(path, _PID_DIGITS))
        return pid if _holds(pid, path) else 0
    except (OSError, ValueError):
        return 0


def take_lock(path: Path, busy: str) -> int:
    """Lock a file and empty it; returns its descriptor.

    Raises:
        RunHeldError: another process holds it; `busy` is the message.
        StorageError: it is a link, or has a second name.
    """
    with storage_errors(path, "open"):
        descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise RunHeldError(busy) from None
            time.sleep(0.01)
        else:
            os.ftruncate(descriptor, 0)
            return descriptor


def terminate_holder(path: Path) -> int:
    """Send SIGTERM to the process that holds the lock of a file; returns its id.

    Raises:
        ControlError: no process holds it, or the kernel does not say which one.
    """
    pid = lock_holder_of(path)
    if pid is None:
        raise ControlError("no process holds it any more")
    if pid == 0:
        raise ControlError(
            f"the kernel names no process of this machine that holds {path}; end it where it runs"
        )
    try:
        handle = os.pidfd_open(pid)  # stays bound to this process, also if its id is reused
    except ProcessLookupError:
        raise ControlError("no process holds it any more") from None
    try:
        if not _holds(pid, path):
            raise ControlError("no process holds it any more")
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        raise ControlError("no process holds it any more") from None
    except PermissionError:
        raise ControlError(f"process {pid} belongs to another user; ask its owner") from None
    finally:
        os.close(handle)
    return pid


def _open(path: Path, flags: int) -> int:
    """A descriptor of a lock file. The folder of the sweep may be a link, `.jobs` in it may not."""
    if path.parent.name == STARTS:
        with open_folder(path.parent) as folder:
            descriptor = open_regular(path.name, flags, folder=folder)
    else:
        descriptor = open_regular(path, flags)
    refuse_second_name(descriptor)
    return descriptor


def _holds(pid: int, path: Path) -> bool:
    """Whether the kernel lists the lock of this file among the open files of a process."""
    status = path.lstat()
    if pid <= 0 or status.st_nlink > 1:
        return False
    with suppress(OSError):  # it has ended, belongs to another user, or the system has no /proc
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed in the meantime
                if os.path.samestat(file.stat(), status):
                    details = Path(f"/proc/{pid}/fdinfo/{file.name}").read_text()
                    if "FLOCK" in details and "WRITE" in details:
                        return True
    return False
