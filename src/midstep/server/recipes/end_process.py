"""Ending a run's process by signal, where asking its loop to stop is not enough."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import Literal

from midstep.core.errors import ControlError
from midstep.facts.liveness.run_lock import boot_id, last_holder, lock_holder

How = Literal["terminate", "kill"]
SIGNALS = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL}


def end_process(run_dir: Path, how: How) -> int:
    """Signal the process that holds the run's lock, and give back its number.

    The kernel says who holds the lock, so neither a stale file nor a reused process number can
    lead to somebody else: a handle on the process is taken first, then the lock is looked at again.

    Raises:
        ControlError: nobody holds the run, or its process is not ours to end.
    """
    pid = _holding(run_dir)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        raise _gone() from None
    try:
        if _holding(run_dir) != pid:
            raise _gone()
        signal.pidfd_send_signal(handle, SIGNALS[how])
    except ProcessLookupError:
        raise _gone() from None
    except PermissionError:
        raise ControlError(f"process {pid} belongs to another user; ask its owner") from None
    finally:
        os.close(handle)
    return pid


def _holding(run_dir: Path) -> int:
    """The process that holds the run's lock, if that can be reached from here."""
    pid, said = lock_holder(run_dir), last_holder(run_dir)
    if pid is None:
        raise _gone()
    if pid == os.getpid():
        raise ControlError("this page is served by the run itself; stop it instead")
    # A lock on a shared disk may be named by the number that the process has on its own machine.
    here = said is not None and (said.host, said.boot_id) == (platform.node(), boot_id())
    if pid == 0 or not here:
        raise ControlError("it runs on another machine or in another container; end it there")
    return pid


def _gone() -> ControlError:
    return ControlError("no process runs it any more")
