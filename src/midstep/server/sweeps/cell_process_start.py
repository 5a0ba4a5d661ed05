"""Start the process of a cell, or adopt one that an earlier pool started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ControlError, MidstepError
from midstep.core.files.storage import make_subfolder
from midstep.facts.format.console_parts import START
from midstep.facts.read.console_text import read_console
from midstep.loops.sweep.cell_states import is_started, run_holder, start_file
from midstep.loops.sweep.plan import PlannedJob
from midstep.loops.sweep.sweep_locks import STARTS, is_locked, take_lock, terminate_holder
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import (
    TAIL_BYTES,
    console_tail,
    open_console,
    remove_failed_start,
)
from midstep.session.run_directory import PRIVATE

CELL_COMMAND = (sys.executable, "-P", "-m", "midstep.live.cell_process")
"""The process of a cell. Its module lies above `server`, so it is not imported here."""


@dataclass(eq=False)
class CellProcess:
    """The process of a cell."""

    job: PlannedJob
    folder: Path
    child: subprocess.Popen[bytes] | None = None
    """None when an earlier pool started the process."""
    is_stopping: bool = False
    """Whether it was sent SIGTERM."""

    @property
    def run_dir(self) -> Path:
        """The run directory in which it trains."""
        return self.folder / self.job.run_dir

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        if self.child is not None:
            return self.child.poll() is not None
        return not is_started(self.folder, self.job)

    def stop(self) -> None:
        """Send SIGTERM: the run takes a checkpoint, records its end and exits."""
        if self.child is not None:
            if self.child.poll() is None:
                self.child.send_signal(signal.SIGTERM)
            self.is_stopping = True
            return
        if run_holder(self.folder, self.job) is not None:
            try:
                end_process(self.run_dir, "terminate")
                self.is_stopping = True
            except ControlError:  # it ended by itself meanwhile, or the lock is that of another run
                self.is_stopping = run_holder(self.folder, self.job) is None
        elif is_locked(path := start_file(self.folder, self.job)):
            with suppress(ControlError):  # tried again later: it may be between two locks
                terminate_holder(path)
                self.is_stopping = True

    def forget(self) -> None:
        """Let the process continue without this one."""
        if self.child is not None and self.child.poll() is None:
            # Otherwise `Popen.__del__` warns that the process is still running.
            self.child.returncode = 0

    def failure(self) -> str | None:
        """What the process printed last if it ended by itself without success; else None."""
        if self.child is None or self.child.returncode <= 0:  # a signal ended it
            return None
        # Until its run is open, a process prints into the one file, and then into the other.
        lines = (console_tail(self.run_dir / START) or _kept_tail(self.run_dir)).splitlines()
        remove_failed_start(self.run_dir)
        last = lines[-1].removeprefix("midstep: ") if lines else "it printed nothing"
        return f"its process ended with code {self.child.returncode}: {last}"


def start_cell(
    folder: Path,
    job: PlannedJob,
    *,
    command: Sequence[str] = CELL_COMMAND,
    environment: Mapping[str, str] | None = None,
) -> CellProcess:
    """Start the process of a cell in its own session, so that it outlives this process.

    Raises:
        RunHeldError: a process trains the cell already.
    """
    run_dir = make_subfolder(folder, job.run_dir, mode=PRIVATE)
    make_subfolder(folder, STARTS, mode=PRIVATE)
    path = start_file(folder, job)
    descriptor = take_lock(path, f"cell {job.job} is being trained by another process")
    try:
        with open_console(run_dir / START) as console:
            child = subprocess.Popen(  # noqa: S603 - our own module; the cell goes by stdin
                list(command),
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the pool, which stops cells in order
                pass_fds=(descriptor,),  # with the lock, which the child holds from now on
                env={**os.environ, **(environment or {})},
            )
        os.pwrite(descriptor, f"{child.pid}".encode(), 0)
    finally:
        os.close(descriptor)
    request = {"sweep_dir": str(folder.absolute()), "job": job.job, "start_lock": descriptor}
    assert child.stdin is not None  # noqa: S101 - asked for above
    with suppress(BrokenPipeError), child.stdin:  # it died at once; `has_ended` notices
        child.stdin.write(strict_json.dumps(request).encode())
    return CellProcess(job, folder, child)


def _kept_tail(run_dir: Path) -> str:
    """The end of what a run kept of its printed text."""
    with suppress(OSError, MidstepError):
        return read_console(run_dir, after=None, tail=TAIL_BYTES).text.strip()
    return ""


def hold_file(path: Path, busy: str) -> int:
    """Lock a file with this process's id in it, until the returned descriptor is closed."""
    descriptor = take_lock(path, busy)
    os.pwrite(descriptor, f"{os.getpid()}".encode(), 0)
    return descriptor
