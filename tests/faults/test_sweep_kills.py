"""Sweeps of composed runs, killed with `kill -9` in the middle and started again by one command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.facts import FactsReader
from midstep.facts.liveness.run_lock import lock_holder
from midstep.loops.sweep.cell_states import Cell, list_cells
from midstep.loops.sweep.plan import read_plan

WAIT_S = 240.0
SMALL = (
    "loop=mlp",
    "data=digits",
    "trainer.epochs=20",
    "trainer.device=cpu",
    "logging.make_plots=false",
    "hydra.job.name=small",
    "trainer.seed=0,1",
    "loop.dropout=0,0.2",
)
TOKENIZERS = (
    "loop=ae",
    "data=synthetic",
    "data.n_events=600",
    "data.batch_size=64",
    "trainer.epochs=30",
    "trainer.device=cpu",
    "logging.make_plots=false",
    "hydra.job.name=tokenizers",
    "phase1/latent_space=none,linear,vq",
    "trainer.globals_beta=0,1,10",
    "trainer.seed=0,1,2",
)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


class Sweep:
    """A sweep of `midstep train -m` in a folder of its own."""

    def __init__(self, outputs: Path, overrides: Sequence[str], epochs: int) -> None:
        self.epochs = epochs
        self.arguments = ["train", "-m", *overrides, "--jobs", "2", "--save-dir"]
        self.arguments += [str(outputs / "runs")]
        self.root = outputs / "multiruns"

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "midstep", *self.arguments],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def folder(self) -> Path:
        (folder,) = self.root.iterdir()
        return folder

    def cells(self) -> list[Cell]:
        return list_cells(self.folder, read_plan(self.folder))

    def moments(self) -> list[list[str]]:
        """The moments on record of each run that has begun."""
        runs = [FactsReader(path) for path in self.root.glob("exp_*/run_*")]
        return [[event["moment"] for event in run.events()] for run in runs]

    def is_in_the_middle(self, finished: int = 0) -> bool:
        """Whether so many cells are finished, and another one has made a few of its epochs."""
        moments = self.moments()
        ended = sum("on_train_end" in each for each in moments)
        return ended >= finished and any(
            2 <= each.count("on_epoch_end") <= self.epochs // 2 for each in moments
        )

    def checkpoints(self) -> dict[str, int]:
        """The newest checkpoint of each run; 0 where there is none."""
        folders = {path.name: path / "checkpoints" for path in self.root.glob("exp_*/run_*")}
        steps = {name: folder.glob("[0-9]*") for name, folder in folders.items()}
        return {name: max((int(each.name) for each in of), default=0) for name, of in steps.items()}

    def pids(self) -> list[int]:
        holders = [lock_holder(path) for path in self.root.glob("exp_*/run_*")]
        return [pid for pid in holders if pid]

    def kill_group(self, parent: subprocess.Popen[bytes]) -> None:
        """`kill -9` of the parent and of the cells, which have sessions of their own."""
        parent.kill()
        for pid in children_of(parent.pid) | set(self.pids()):
            os.kill(pid, signal.SIGKILL)
        parent.wait(WAIT_S)
        wait_until(lambda: not self.pids())


def children_of(parent: int) -> set[int]:
    """The children of a process, read before it is reaped."""
    names = Path(f"/proc/{parent}/task").glob("*/children")
    return {int(pid) for path in names for pid in path.read_text().split()}


def attempts(run_dir: Path) -> list[list[int]]:
    """Steps in the epoch records of each attempt."""
    by_attempt: dict[int, list[int]] = {}
    for event in FactsReader(run_dir).events():
        if event["moment"] == "on_epoch_end":
            by_attempt.setdefault(event["attempt"], []).append(event["step"])
    return [by_attempt[attempt] for attempt in sorted(by_attempt)]


def check_nothing_redone(
    sweep: Sweep, finished_before: set[str], checkpoints: dict[str, int]
) -> None:
    """Finished cells were not touched, others continued at their checkpoint, none is missing."""
    for cell in sweep.cells():
        assert (cell.state, cell.change) == ("finished", None), cell
        epochs = attempts(sweep.folder / cell.run_dir)
        if cell.run_dir in finished_before:
            assert len(epochs) == 1, cell
        each = epochs[0][0]
        assert epochs[-1][-1] == cell.step
        for after in epochs[1:]:
            # Another thread writes checkpoints, so the record of an epoch may be ahead of its own.
            next_epoch = checkpoints[cell.run_dir] // each + 1
            assert after[0] == next_epoch * each, (cell.run_dir, epochs, checkpoints)


@pytest.fixture
def started() -> Iterator[list[tuple[Sweep, subprocess.Popen[bytes]]]]:
    """The sweeps that a test starts; what a failed test leaves is ended."""
    processes: list[tuple[Sweep, subprocess.Popen[bytes]]] = []
    yield processes
    for sweep, parent in processes:
        if parent.poll() is None:
            sweep.kill_group(parent)


def test_four_cells_killed_in_the_middle_are_finished_by_the_same_command(
    tmp_path: Path,
    started: list[tuple[Sweep, subprocess.Popen[bytes]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = Sweep(tmp_path, SMALL, epochs=20)
    parent = sweep.start()
    started.append((sweep, parent))
    wait_until(sweep.is_in_the_middle)
    sweep.kill_group(parent)
    before = {cell.state for cell in sweep.cells()}
    assert "killed" in before, before
    finished = {cell.run_dir for cell in sweep.cells() if cell.state == "finished"}
    checkpoints = sweep.checkpoints()
    assert main(sweep.arguments) == 0
    assert "4 of 4 finished" in capsys.readouterr().out
    check_nothing_redone(sweep, finished, checkpoints)
    assert main(["sweep", "status", str(sweep.folder)]) == 0
    assert "4 cells: 4 finished" in capsys.readouterr().out
    assert len(list(sweep.folder.glob("run_*"))) == 4


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_seven_cells_killed_in_the_middle_lose_nothing(
    tmp_path: Path,
    started: list[tuple[Sweep, subprocess.Popen[bytes]]],
    record_property: Callable[[str, object], None],
) -> None:
    sweep = Sweep(tmp_path, TOKENIZERS, epochs=30)
    parent = sweep.start()
    started.append((sweep, parent))
    wait_until(lambda: sweep.is_in_the_middle(finished=12))
    sweep.kill_group(parent)
    states = [cell.state for cell in sweep.cells()]
    assert states.count("killed") >= 1
    finished = {cell.run_dir for cell in sweep.cells() if cell.state == "finished"}
    checkpoints = sweep.checkpoints()
    assert main(sweep.arguments) == 0
    check_nothing_redone(sweep, finished, checkpoints)
    assert len(sweep.cells()) == 27
    record_property(
        "figure",
        f"27-cell sweep killed with {len(finished)} finished and {states.count('killed')} running: "
        "0 cells lost, each resumed at its last checkpoint",
    )
