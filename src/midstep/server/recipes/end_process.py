"""End the process of a run with a signal, if its loop does not react to a stop."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import Literal

from midstep.core.errors import ControlError
from midstep.core.files.untrusted_files import is_plain
from midstep.facts.format.paths import lock_path
from midstep.facts.liveness.run_lock import boot_id, last_holder, lock_holder

How = Literal["terminate", "kill"]
SIGNALS = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL}


def end_process(run_dir: Path, how: How) -> int:
    """Signal the process that holds the run's lock, and return its process id.

    Raises:
        ControlError: no process holds the run, or it may not be ended from here.
    """
    # The kernel tells who holds the lock, so a stale file cannot name another process. Neither can
    # a reused process id: after the handle was opened, the holder of the lock is read again.
    pid = _find_holder(run_dir)
    try:
        handle = os.pidfd_open(pid)  # stays bound to this process, also if its id is reused
    except ProcessLookupError:
        raise _gone() from None
    try:
        if _find_holder(run_dir) != pid:
            raise _gone()
        signal.pidfd_send_signal(handle, SIGNALS[how])
    except ProcessLookupError:
        raise _gone() from None
    except PermissionError:
        raise ControlError(f"process {pid} belongs to another user; ask its owner") from None
    finally:
        os.close(handle)
    return pid


def _find_holder(run_dir: Path) -> int:
    """The process that holds the run's lock, if it runs on this machine and is not this one."""
    if run_dir.is_symlink():
        raise ControlError("its directory is a link to another run; name that one")
    pid, holder = lock_holder(run_dir), last_holder(run_dir)
    if pid is None:
        raise _gone()
    # A hard link leads to the lock of another run, whose process must not be hit.
    if not is_plain(lock_path(run_dir)):
        raise ControlError(
            f"its lock file has a second name, so process {pid} may run another run; "
            "end that process yourself"
        )
    if pid == os.getpid():
        raise ControlError("this page is served by the run itself; stop it instead")
    # On a shared disk the kernel may report the process id of another machine.
    is_here = holder is not None and (holder.host, holder.boot_id) == (platform.node(), boot_id())
    if pid == 0 or not is_here:
        raise ControlError("it runs on another machine or in another container; end it there")
    return pid


def _gone() -> ControlError:
    return ControlError("no process runs it any more")
