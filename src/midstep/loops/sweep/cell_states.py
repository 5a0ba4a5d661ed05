"""The state of each cell of a sweep: from its run, its plan, and the code and data of now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from midstep.core.errors import ConfigError, StorageError
from midstep.facts.index.run_row import LIVE_STATES, RunRow, read_row
from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_lock import lock_holder
from midstep.loops.sweep.cell_address import digest_modules, fingerprint_data
from midstep.loops.sweep.plan import PlannedJob, SweepPlan
from midstep.loops.sweep.sweep_locks import POOL_LOCK, STARTS, is_locked, lock_holder_of

CellState = Literal["missing", "running", "finished", "stopped", "killed", "failed"]
Change = Literal["code", "data", "accepted code"]
_STATES: Mapping[str, CellState] = {
    "finished": "finished",
    "stopped": "stopped",
    "killed": "killed",
    "lost": "killed",
    "failed": "failed",
    "damaged": "failed",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell as a list shows it."""

    job: int
    choices: Mapping[str, str]
    state: CellState
    run_state: str | None = None
    """The state of its run, such as paused; None when there is none yet."""
    change: Change | None = None
    """What has changed since the run, code or data; accepted code is named too."""
    share: float | None = None
    """Share of its steps that is done."""
    step: int | None = None
    epoch: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """Best validation loss and the last value of each scalar."""
    error: str | None = None
    """Why it failed or was killed."""
    address: str = ""
    run_dir: str = ""
    run_id: str | None = None
    """Id of its run; None when there is none yet."""

    @property
    def is_kept(self) -> bool:
        """Whether it is finished with the code and data of now, or with code that was accepted."""
        return self.state == "finished" and self.change in (None, "accepted code")

    def is_open(self, *, retry_failed: bool = False) -> bool:
        """Whether a start of the sweep trains it: it is not finished, running or failed."""
        if self.state == "failed" and self.change is None:
            return retry_failed
        return self.state != "running" and not self.is_kept


RowOf = Callable[[PlannedJob], "RunRow | None"]


def list_cells(folder: Path, plan: SweepPlan, row_of: RowOf | None = None) -> list[Cell]:
    """The cells of a sweep, in the order of the plan.

    Args:
        folder: the sweep's folder.
        plan: its plan.
        row_of: the row of a job's run, if a caller has an index of them.
    """
    read = row_of or (lambda job: read_run(folder, job))
    # One hash for the cells that name the same modules and files.
    code, data = cache(_code_now), cache(_data_now)
    return [_cell(folder, job, read(job), code, data) for job in plan.jobs]


def read_run(folder: Path, job: PlannedJob) -> RunRow | None:
    """The row of a job's run, read from its facts; None when it has none yet."""
    run_dir = folder / job.run_dir
    return read_row(run_dir) if (run_dir / "facts").is_dir() and not run_dir.is_symlink() else None


def run_holder(folder: Path, job: PlannedJob) -> int | None:
    """The process that writes the run of a job; None if no process does."""
    run_dir = folder / job.run_dir
    # A link leads to a run of somebody else, not to a cell of this sweep.
    return None if run_dir.is_symlink() else lock_holder(run_dir)


def is_started(folder: Path, job: PlannedJob) -> bool:
    """Whether a process trains the job, or is about to: it may still be loading torch."""
    return run_holder(folder, job) is not None or is_locked(start_file(folder, job))


def start_file(folder: Path, job: PlannedJob) -> Path:
    """The file that the process of a job keeps locked from its first moment on."""
    return folder / STARTS / f"{job.job:03d}"


def pool_holder(folder: Path) -> int | None:
    """The process that runs the cells of a sweep now, 0 if it has no id here; None if none does."""
    return lock_holder_of(folder / POOL_LOCK)


def _cell(
    folder: Path,
    job: PlannedJob,
    row: RunRow | None,
    code: Callable[[tuple[str, ...]], str | None],
    data: Callable[[tuple[str, ...]], str | None],
) -> Cell:
    known: dict[str, Any] = {
        "job": job.job,
        "choices": job.choices,
        "address": job.address,
        "run_dir": job.run_dir,
    }
    change = _change(job, code, data)
    is_live = row is not None and row.state in LIVE_STATES
    state: CellState = "missing" if row is None else _STATES.get(row.state, "killed")
    if is_live or is_started(folder, job):
        state = "running"
    elif job.failure is not None and (state != "finished" or change in ("code", "data")):
        state = "failed"
    if row is None:
        return Cell(**known, state=state, error=job.failure, change=change)
    step = row.step
    if state == "killed" and step is None:  # the lease of a killed run stays, with its last step
        last = (read_lease(folder / job.run_dir) or {}).get("step")
        step = last if type(last) is int else None
    return Cell(
        **known,
        state=state,
        run_state=row.state,
        run_id=row.id,
        change=change,
        share=_share(step, row, state),
        step=step,
        epoch=row.epoch,
        values=row.summary,
        error=_error(job, row) if state in ("failed", "killed") else None,
    )


def _error(job: PlannedJob, row: RunRow) -> str | None:
    """What the run recorded, else what its process printed last."""
    return row.why if row.state == "failed" and row.why else job.failure or row.why


def _share(step: int | None, row: RunRow, state: CellState) -> float | None:
    if state == "finished":
        return 1.0
    if step is None or not row.total_steps:
        return None
    return min(1.0, step / row.total_steps)


def _change(
    job: PlannedJob,
    code: Callable[[tuple[str, ...]], str | None],
    data: Callable[[tuple[str, ...]], str | None],
) -> Change | None:
    if data(job.data_files) != job.data_fingerprint:
        return "data"
    now = code(job.modules)
    if now == job.code_hash:
        return None
    return "accepted code" if now in job.accepted_code else "code"


def _code_now(modules: tuple[str, ...]) -> str | None:
    """The hash of the code now; None when a module has gone."""
    try:
        return digest_modules(modules)
    except (ConfigError, StorageError):
        return None


def _data_now(files: tuple[str, ...]) -> str | None:
    """The hash of the data now; None when a file has gone."""
    try:
        return fingerprint_data(map(Path, files))
    except StorageError:
        return None
