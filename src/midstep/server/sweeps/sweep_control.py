"""Start and stop sweeps and cells from another process than the one that runs them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ControlError
from midstep.loops.sweep.cell_states import is_started, pool_holder
from midstep.loops.sweep.plan import read_plan
from midstep.loops.sweep.sweep_locks import POOL_LOCK, terminate_holder
from midstep.server.recipes.launcher import console_tail, open_console
from midstep.server.sweeps.cell_process_start import CellProcess

POOL_MODULE = "midstep.live.sweep_process"
"""The process of a pool. It lies above `server`, so it is not imported here."""
POOL_CONSOLE = "pool.log"
START_S = 60.0
"""Time for a pool to begin. A busy machine takes long to load its modules."""


def start_pool(
    folder: Path, *, jobs: int, retry_failed: bool, only: tuple[int, ...] | None
) -> None:
    """Start a process that runs the open cells; it does not depend on this one.

    Raises:
        ControlError: a process runs the sweep already, or the new one ended at once.
    """
    holder = pool_holder(folder)
    if holder is not None:
        raise ControlError(f"process {holder or 'unknown'} runs this sweep already")
    request = {
        "sweep_dir": str(folder.absolute()),
        "jobs": jobs,
        "retry_failed": retry_failed,
        "only": None if only is None else list(only),
    }
    with open_console(folder / POOL_CONSOLE) as console:
        child = subprocess.Popen(  # noqa: S603 - our own module; settings go by stdin
            [sys.executable, "-P", "-m", POOL_MODULE],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a closed terminal ends only the server
        )
    assert child.stdin is not None  # noqa: S101 - asked for above
    with suppress(BrokenPipeError), child.stdin:  # it died at once; noticed below
        child.stdin.write(strict_json.dumps(request).encode())
    until = time.monotonic() + START_S
    # 0: held, and this system does not say by whom.
    while pool_holder(folder) not in (child.pid, 0):
        code = child.poll()
        if code == 0:  # there was nothing to do
            return
        if code is not None:
            lines = console_tail(folder / POOL_CONSOLE).splitlines()
            raise ControlError(f"the sweep did not start: {lines[-1] if lines else f'code {code}'}")
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    # Waits for the end of the process, which would stay a zombie until then.
    threading.Thread(target=child.wait, name="midstep-reap", daemon=True).start()


def stop_pool(folder: Path) -> int:
    """Ask the process that runs a sweep to stop its cells in order; returns its process id."""
    if pool_holder(folder) is None:
        raise ControlError("no process runs this sweep")
    return terminate_holder(folder / POOL_LOCK)


def stop_cell(folder: Path, number: int) -> int:
    """Ask the process of one cell to take a checkpoint and stop; returns the cell's number."""
    job = read_plan(folder).job(number)
    if not is_started(folder, job):
        raise ControlError(f"no process trains cell {number}")
    process = CellProcess(job, folder)
    process.stop()
    if not process.is_stopping:
        raise ControlError(
            f"cell {number} cannot be stopped now: it is just being started, or its lock is not "
            "that of a process of this machine; try again, or end its process yourself"
        )
    return number
