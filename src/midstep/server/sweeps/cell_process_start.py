"""Start the process of a cell, or adopt one that an earlier pool started."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ControlError, RunHeldError
from midstep.core.files.storage import make_folder, storage_errors
from midstep.core.files.untrusted_files import open_regular
from midstep.facts.liveness.run_lock import lock_holder
from midstep.loops.sweep.cell_states import STARTS, is_locked, is_started, start_file
from midstep.loops.sweep.plan import PlannedJob
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import CONSOLE, console_tail
from midstep.session.run_directory import PRIVATE

CELL_COMMAND = (sys.executable, "-P", "-m", "midstep.live.cell_process")
"""The process of a cell. Its module lies above `server`, so it is not imported here."""
LOCK_WAIT_S = 0.5
"""How long a reader that tests a lock may hold it; readers hold it for microseconds."""


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
        if lock_holder(self.run_dir) is not None:
            with suppress(ControlError):  # it ended by itself meanwhile
                end_process(self.run_dir, "terminate")
            self.is_stopping = True
        elif is_locked(path := start_file(self.folder, self.job)):
            self.is_stopping = _terminate_starting(path)

    def forget(self) -> None:
        """Let the process continue without this one."""
        if self.child is not None and self.child.poll() is None:
            # Otherwise `Popen.__del__` warns that the process is still running.
            self.child.returncode = 0

    def failure(self) -> str | None:
        """What the process printed last if it ended by itself without success; else None."""
        if self.child is None or self.child.returncode <= 0:  # a signal ended it
            return None
        lines = console_tail(self.run_dir / CONSOLE).splitlines()
        if not (self.run_dir / "facts").is_dir():
            self._remove_directory()
        last = lines[-1].removeprefix("midstep: ") if lines else "it printed nothing"
        return f"its process ended with code {self.child.returncode}: {last}"

    def _remove_directory(self) -> None:
        """Remove the run directory if it holds the console alone."""
        with suppress(OSError):  # it then stays, for the user to look into
            if {entry.name for entry in self.run_dir.iterdir()} == {CONSOLE}:
                (self.run_dir / CONSOLE).unlink()
                self.run_dir.rmdir()


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
    run_dir = make_folder(folder / job.run_dir, mode=PRIVATE)
    make_folder(folder / STARTS, mode=PRIVATE)
    path = start_file(folder, job)
    descriptor = _lock(path, f"cell {job.job} is being trained by another process")
    try:
        with open(run_dir / CONSOLE, "ab", opener=open_regular) as console:
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


def hold_file(path: Path, busy: str) -> int:
    """Lock a file with this process's id in it, until the returned descriptor is closed."""
    descriptor = _lock(path, busy)
    os.pwrite(descriptor, f"{os.getpid()}".encode(), 0)
    return descriptor


def _lock(path: Path, busy: str) -> int:
    with storage_errors(path, "open"):
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT, 0o600)
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


def _terminate_starting(path: Path) -> bool:
    """Send SIGTERM to a process that has not opened its run yet; False to try again later."""
    try:
        pid = int(path.read_text())
    except (OSError, ValueError):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True
