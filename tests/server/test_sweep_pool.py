"""Pools of sweeps with real processes: killed alone and as a group, stopped, detached, adopted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from midstep.core.errors import RunHeldError
from midstep.loops.sweep.cell_states import Cell, is_started, list_cells, pool_holder
from midstep.loops.sweep.plan import read_plan
from midstep.server.sweeps.sweep_control import stop_cell, stop_pool
from midstep.server.sweeps.sweep_pool import SweepPool, hold_sweep
from tests.tiny_sweep import COMMAND, ROOT, options, plan_of, steps_made, sweep_in

WAIT_S = 60.0
STEPS = 10
POOL = f"""
import sys
from pathlib import Path
from midstep.server.sweeps.sweep_pool import PoolOptions, SweepPool, hold_sweep
from midstep.session.signals import GracefulStop
folder, detach = Path(sys.argv[1]), sys.argv[2] == "detach"
with hold_sweep(folder):
    options = PoolOptions(command={COMMAND!r}, detach=detach)
    pool = SweepPool(folder, options, on_change=lambda what, cell: None)
    with GracefulStop(lambda _: pool.request_stop()):
        pool.run()
"""


class PoolProcess:
    """A pool in a process of its own, as the command line runs it."""

    started: ClassVar[list[PoolProcess]] = []

    def __init__(self, folder: Path, *, detach: bool = False) -> None:
        self.folder = folder
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", POOL, str(folder), "detach" if detach else ""],
            env=environment,
        )
        self.started.append(self)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(WAIT_S)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def cells_in(folder: Path) -> list[Cell]:
    return list_cells(folder, read_plan(folder))


def states(folder: Path) -> list[str]:
    return [cell.state for cell in cells_in(folder)]


def run_here(folder: Path, **changes: Any) -> list[tuple[str, int, str]]:
    """Run the open cells in this process; returns what happened."""
    happened: list[tuple[str, int, str]] = []
    with hold_sweep(folder):
        pool = SweepPool(
            folder,
            options(**changes),
            on_change=lambda what, cell: happened.append((what, cell.job, cell.state)),
        )
        pool.run()
    return happened


def pids_of(folder: Path) -> list[int]:
    """The processes of cells that run."""
    plan = read_plan(folder)
    files = [folder / ".jobs" / f"{job.job:03d}" for job in plan.jobs if is_started(folder, job)]
    return [int(text) for path in files if (text := path.read_text())]


@pytest.fixture(autouse=True)
def _processes_are_ended() -> Iterator[None]:
    """End the processes that a failed test leaves."""
    yield
    while PoolProcess.started:
        pool = PoolProcess.started.pop()
        pool.kill()
        for pid in pids_of(pool.folder):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda folder=pool.folder: not pids_of(folder))


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of four cells that take half a second each."""
    return sweep_in(tmp_path, step_s=0.05, steps=STEPS)


def test_two_cells_at_a_time_and_a_second_start_does_nothing(tmp_path: Path) -> None:
    folder = sweep_in(tmp_path)
    happened = run_here(folder, jobs=2)
    running, most = 0, 0
    for what, _, _ in happened:
        running += 1 if what == "started" else -1
        most = max(most, running)
    assert most == 2
    assert states(folder) == ["finished"] * 4
    assert [cell.values["best_val_loss"] for cell in cells_in(folder)] == [1.0, 1.1, 2.0, 2.1]
    assert run_here(folder) == []


def test_a_pool_killed_alone_leaves_cells_that_the_next_one_adopts(sweep: Path) -> None:
    first = PoolProcess(sweep)
    wait_until(lambda: len(steps_made(sweep)) == 2)
    adopted = pids_of(sweep)
    first.kill()
    assert pids_of(sweep) == adopted
    happened = run_here(sweep)
    assert [job for what, job, _ in happened if what == "adopted"] == [0, 1]
    assert [job for what, job, _ in happened if what == "started"] == [2, 3]
    assert states(sweep) == ["finished"] * 4
    assert steps_made(sweep) == {f"job00{job}": list(range(1, STEPS + 1)) for job in range(4)}


def test_a_cell_that_still_starts_is_adopted_before_it_has_a_lease(tmp_path: Path) -> None:
    folder = sweep_in(tmp_path, begin_s=1.5, steps=2)
    first = PoolProcess(folder)
    wait_until(lambda: len(pids_of(folder)) == 2)
    first.kill()
    assert not list(folder.glob("run_*/facts"))
    happened = run_here(folder)
    assert [job for what, job, _ in happened if what == "adopted"] == [0, 1]
    assert steps_made(folder) == {f"job00{job}": [1, 2] for job in range(4)}


def test_cells_killed_with_their_pool_are_resumed_and_nothing_is_redone(sweep: Path) -> None:
    first = PoolProcess(sweep)
    wait_until(lambda: all(len(steps) > 3 for steps in steps_made(sweep).values()) and
               len(steps_made(sweep)) == 2)  # fmt: skip
    pids = pids_of(sweep)
    first.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not pids_of(sweep))
    assert states(sweep) == ["killed", "killed", "missing", "missing"]
    assert 0 < (cells_in(sweep)[0].share or 0) < 1
    run_here(sweep)
    assert states(sweep) == ["finished"] * 4
    # A kill between a step and its checkpoint may repeat this one step.
    for steps in steps_made(sweep).values():
        assert sorted(set(steps)) == list(range(1, STEPS + 1))
        assert len(steps) <= STEPS + 1


def test_sigterm_stops_the_cells_in_order_and_they_are_resumed(sweep: Path) -> None:
    first = PoolProcess(sweep)
    wait_until(lambda: len(steps_made(sweep)) == 2)
    assert first.terminate() == 0
    assert states(sweep) == ["stopped", "stopped", "missing", "missing"]
    assert not pids_of(sweep)
    run_here(sweep)
    assert steps_made(sweep) == {f"job00{job}": list(range(1, STEPS + 1)) for job in range(4)}


def test_a_detached_pool_leaves_its_cells_running(sweep: Path) -> None:
    first = PoolProcess(sweep, detach=True)
    wait_until(lambda: len(steps_made(sweep)) == 2)
    assert first.terminate() == 0
    assert len(pids_of(sweep)) == 2
    wait_until(lambda: not pids_of(sweep))
    assert states(sweep) == ["finished", "finished", "missing", "missing"]


def test_a_second_pool_is_refused_and_one_cell_is_stopped(sweep: Path) -> None:
    first = PoolProcess(sweep)
    wait_until(lambda: len(steps_made(sweep)) == 2)
    stop_cell(sweep, 1)
    assert pool_holder(sweep) == first.process.pid
    with pytest.raises(RunHeldError, match=f"process {first.process.pid}"), hold_sweep(sweep):
        pass
    wait_until(lambda: states(sweep)[1] == "stopped")
    wait_until(lambda: "job002" in steps_made(sweep))  # the others continue
    assert stop_pool(sweep) == first.process.pid
    assert first.process.wait(WAIT_S) == 0


def test_a_failed_cell_shows_its_error_and_runs_again_on_request(tmp_path: Path) -> None:
    plan = plan_of(cells={1: {"error_at": 5}, 2: {"refuse": True}}, steps=STEPS)
    folder = sweep_in(tmp_path, plan)
    run_here(folder)
    assert states(folder) == ["finished", "failed", "failed", "finished"]
    _, raised, refused, _ = cells_in(folder)
    assert raised.error is not None
    assert "ValueError: bad batch" in raised.error
    assert refused.error == ("its process ended with code 2: there is no such data")
    assert not (folder / plan.jobs[2].run_dir).exists()
    assert run_here(folder) == []  # failed cells are not run again by themselves
    (folder / "allowed").touch()
    run_here(folder, retry_failed=True)
    assert states(folder) == ["finished"] * 4
    assert steps_made(folder)["job001"] == list(range(1, STEPS + 1))


def test_other_code_is_run_anew_in_another_directory_unless_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    part = tmp_path / "edited_part.py"
    part.write_text("A = 1\n")
    folder = sweep_in(tmp_path, plan_of(modules=["edited_part"], steps=2))
    run_here(folder)
    part.write_text("A = 2  # an edit\n")
    assert [(cell.state, cell.change, cell.is_open()) for cell in cells_in(folder)] == [
        ("finished", "code", True)
    ] * 4
    assert run_here(folder, accept_code=True) == []
    assert [(cell.change, cell.is_kept) for cell in cells_in(folder)] == [
        ("accepted code", True)
    ] * 4
    part.write_text("A = 3  # a second edit\n")
    run_here(folder, only=(0,))
    kept = read_plan(folder).job(0)
    assert len(kept.replaced_runs) == 1
    assert all((folder / name / "facts").is_dir() for name in (kept.run_dir, *kept.replaced_runs))
    assert [cell.change for cell in cells_in(folder)] == [None, "code", "code", "code"]
