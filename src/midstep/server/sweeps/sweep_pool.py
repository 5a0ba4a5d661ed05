"""`SweepPool`: runs the open cells of a sweep, a few at a time, each in its own process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from midstep.core.errors import ConfigError, StorageError
from midstep.loops.sweep.cell_states import (
    Cell,
    is_started,
    list_cells,
    pool_holder,
)
from midstep.loops.sweep.plan import PlannedJob, SweepPlan, read_plan, write_plan
from midstep.loops.sweep.planning import renewed_job, with_found_batch_size
from midstep.loops.sweep.sweep_locks import POOL_LOCK
from midstep.server.sweeps.cell_process_start import (
    CELL_COMMAND,
    CellProcess,
    hold_file,
    start_cell,
)

POLL_S = 0.1
MOST_JOBS = 64
What = Literal["started", "adopted", "ended"]
OnChange = Callable[[What, Cell], None]


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Which cells of a sweep run, and how.

    >>> PoolOptions(jobs=2).retry_failed
    False
    """

    jobs: int = 2
    """Most cells that train at a time, with adopted ones."""
    retry_failed: bool = False
    """Also run cells that failed."""
    accept_code: bool = False
    """Keep finished cells, and resume others, whose code has changed since."""
    detach: bool = False
    """At a stop, let the running cells continue and begin no others."""
    only: tuple[int, ...] | None = None
    """Only these cells; None for all."""
    threads: int | None = None
    """Threads of torch in each cell; None divides the cores among the cells."""
    command: Sequence[str] = CELL_COMMAND
    """The process of a cell; it gets the cell as JSON on stdin."""

    def __post_init__(self) -> None:
        if not 1 <= self.jobs <= MOST_JOBS:
            raise ConfigError(f"jobs must be from 1 to {MOST_JOBS}, got {self.jobs}")
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"threads must be at least 1, got {self.threads}")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the processes of cells."""
        if self.threads is None and "OMP_NUM_THREADS" in os.environ:
            return {}
        # Two trainings with as many threads as cores each are far slower than one after the other.
        threads = self.threads or max(1, (os.cpu_count() or 1) // self.jobs)
        return {"OMP_NUM_THREADS": str(threads)}


@contextmanager
def hold_sweep(folder: Path) -> Iterator[None]:
    """Be the one process that changes the plan of a sweep and starts its cells.

    Raises:
        RunHeldError: another process runs the sweep; the message names it.
    """
    busy = (
        f"sweep {folder.name} is being run by process {pool_holder(folder) or 'unknown'}; "
        f"wait for its end, or stop it with: midstep sweep stop {folder.name}"
    )
    descriptor = hold_file(folder / POOL_LOCK, busy)
    try:
        yield
    finally:
        os.close(descriptor)


class SweepPool:
    """Runs the open cells of a sweep. The caller holds the sweep with `hold_sweep`.

    Args:
        folder: the sweep's folder, with its plan.
        options: which cells, and how many at a time.
        on_change: called from the thread of `run` when a cell begins or ends.
        on_wait: called from the same thread between two checks of the processes.
    """

    def __init__(
        self,
        folder: Path,
        options: PoolOptions,
        *,
        on_change: OnChange,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self.options = folder, options
        self._on_change, self._on_wait = on_change, on_wait
        self._plan = read_plan(folder)
        self._stop = threading.Event()
        self._active: list[CellProcess] = []
        self._waiting: list[int] = []

    @property
    def plan(self) -> SweepPlan:
        """The plan as it is now."""
        return self._plan

    @property
    def active(self) -> tuple[PlannedJob, ...]:
        """The cells that train now."""
        return tuple(process.job for process in self._active)

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Begin no more cells and stop the running ones in order. Safe from any thread."""
        self._stop.set()

    def run(self) -> list[Cell]:
        """Run the open cells; returns all cells as they are then."""
        self._adopt_and_queue()
        try:
            while self._active or self._waiting:
                self._collect_ended()
                if self._stop.is_set():
                    self._waiting.clear()
                    if self.options.detach:
                        break
                    self._stop_active()
                while self._waiting and len(self._active) < self.options.jobs:
                    self._start(self._waiting.pop(0))
                if self._active:
                    self._on_wait()
                    time.sleep(POLL_S)
        finally:
            for process in self._active:
                process.forget()
            self._active.clear()
        return self.cells()

    def cells(self) -> list[Cell]:
        """All cells as they are now."""
        return list_cells(self.folder, self._plan)

    def accept_code(self) -> int:
        """Keep the cells whose code has changed since; returns how many there are."""
        from midstep.loops.sweep.cell_address import digest_modules

        changed = [cell.job for cell in self.cells() if cell.change == "code"]
        for number in changed:
            job = self._plan.job(number)
            codes = (*job.accepted_code, digest_modules(job.modules))
            self._change(replace(job, accepted_code=codes))
        return len(changed)

    def _adopt_and_queue(self) -> None:
        if self.options.accept_code:
            self.accept_code()
        only = self.options.only
        for cell in self.cells():
            job = self._plan.job(cell.job)
            if is_started(self.folder, job):
                self._active.append(CellProcess(job, self.folder))
                self._on_change("adopted", cell)
            elif (only is None or cell.job in only) and cell.is_open(
                retry_failed=self.options.retry_failed
            ):
                self._waiting.append(cell.job)

    def _start(self, number: int) -> None:
        job = self._plan.job(number)
        # Checked again now: the code may have been edited since the sweep began.
        (cell,) = list_cells(self.folder, replace(self._plan, jobs=(job,)))
        if self._is_outdated(cell):
            has_run = (self.folder / job.run_dir).is_dir()
            try:
                job = renewed_job(job, name=self._plan.name, at=datetime.now(UTC), has_run=has_run)
            except (ConfigError, StorageError) as error:
                self._change(replace(job, failure=str(error)))
                self._on_change("ended", self._cell(self._plan.job(number)))
                return
            self._change(job)
        elif job.failure is not None:
            job = replace(job, failure=None)
            self._change(job)
        process = start_cell(
            self.folder,
            job,
            command=self.options.command,
            environment=self.options.environment,
        )
        self._active.append(process)
        self._on_change("started", self._cell(job))

    def _is_outdated(self, cell: Cell) -> bool:
        return cell.change == "data" or (cell.change == "code" and not self.options.accept_code)

    def _collect_ended(self) -> None:
        for process in [each for each in self._active if each.has_ended()]:
            self._active.remove(process)
            failure = process.failure()
            job = with_found_batch_size(process.job, self.folder)
            if failure is not None and not process.is_stopping:
                job = replace(job, failure=failure)
            if job != process.job:
                self._change(job)
            self._on_change("ended", self._cell(job))

    def _stop_active(self) -> None:
        for process in self._active:
            if not process.is_stopping:
                process.stop()

    def _change(self, job: PlannedJob) -> None:
        self._plan = self._plan.with_job(job)
        write_plan(self.folder, self._plan)

    def _cell(self, job: PlannedJob) -> Cell:
        (cell,) = list_cells(self.folder, replace(self._plan, jobs=(job,)))
        return cell
