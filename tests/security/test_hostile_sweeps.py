"""A stranger's sweep whose files lead to processes, runs and data of this user."""

from __future__ import annotations

import json
import os
import platform
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.cli.sweep import run_sweep
from midstep.core.errors import ControlError, FormatError, StorageError
from midstep.facts.format.console_parts import START
from midstep.facts.format.paths import lock_path
from midstep.facts.liveness.run_lock import boot_id, lock_holder
from midstep.loops.sweep import cell_address
from midstep.loops.sweep.cell_states import list_cells, pool_holder
from midstep.loops.sweep.plan import PLAN, read_plan
from midstep.loops.sweep.sweep_locks import lock_holder_of, terminate_holder
from midstep.server.recipes.end_process import end_process
from midstep.server.sweeps.cell_process_start import start_cell
from midstep.server.sweeps.sweep_control import stop_cell, stop_pool
from midstep.server.sweeps.sweep_pool import SweepPool, hold_sweep
from tests.tiny_sweep import COMMAND, options, plan_of, sweep_in

TRAINING = """
import fcntl, os, sys
run, *sweep = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
fcntl.lockf(run, fcntl.LOCK_EX)
for descriptor in sweep:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
print("ready", flush=True)
for line in sys.stdin:
    print("still here", flush=True)
"""


class Training:
    """A process that holds the lock of a run, and those of a sweep."""

    def __init__(self, *locks: Path) -> None:
        self.locks = locks
        for path in locks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINING, *map(str, locks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def is_untouched(self) -> bool:
        """Whether it answers: a signal would have ended it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._line() == "still here\n"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Training]:
    run, sweep = tmp_path / "runs" / "mine", tmp_path / "my_sweep"
    training = Training(lock_path(run), sweep / ".pool.lock", sweep / ".jobs" / "000")
    pid = training.process.pid
    note = {"pid": pid, "host": platform.node(), "boot_id": boot_id(), "since": 1}
    training.locks[0].write_text(json.dumps(note))
    yield training
    with training.process as process:
        process.kill()


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A sweep that a stranger has made."""
    folder = sweep_in(tmp_path, plan_of(("level=1,2",)))
    (folder / ".jobs").mkdir()
    return folder


def first_run(sweep: Path) -> Path:
    return sweep / read_plan(sweep).jobs[0].run_dir


def test_a_run_directory_that_is_a_link_ends_no_process(mine: Training, theirs: Path) -> None:
    first_run(theirs).symlink_to(mine.locks[0].parents[1])
    assert lock_holder(first_run(theirs)) == mine.process.pid
    with pytest.raises(ControlError, match="no process trains cell 0"):
        stop_cell(theirs, 0)
    with pytest.raises(ControlError, match="is a link"):
        end_process(first_run(theirs), "terminate")
    assert mine.is_untouched()
    assert list_cells(theirs, read_plan(theirs))[0].state == "missing"


def test_a_lock_of_another_sweep_ends_no_process(mine: Training, theirs: Path) -> None:
    _, pool, start = mine.locks
    for name in (".pool.lock", ".jobs/000"):
        (theirs / name).hardlink_to(pool if name == ".pool.lock" else start)
    first_run(theirs).mkdir()
    lock_path(first_run(theirs)).parent.mkdir()
    lock_path(first_run(theirs)).hardlink_to(mine.locks[0])
    assert pool_holder(theirs) is None
    with pytest.raises(ControlError, match="no process runs this sweep"):
        stop_pool(theirs)
    with pytest.raises(ControlError, match="cannot be stopped now"):  # its lock has two names
        stop_cell(theirs, 0)
    with pytest.raises(StorageError, match="another name"), hold_sweep(theirs):
        pass
    assert mine.is_untouched()
    assert pool.read_text() == str(mine.process.pid)  # not emptied


def test_a_process_id_in_a_file_is_not_believed(mine: Training, theirs: Path) -> None:
    """The stranger holds the lock, and has written the id of another process into the file."""
    holder = Training(theirs / "any", theirs / ".pool.lock", theirs / ".jobs" / "000")
    with holder.process:
        for path in holder.locks[1:]:
            assert lock_holder_of(path) == holder.process.pid
            path.write_text(str(mine.process.pid))
            assert lock_holder_of(path) == 0
            with pytest.raises(ControlError, match="names no process"):
                terminate_holder(path)
        with pytest.raises(ControlError, match="names no process"):
            stop_pool(theirs)
        with pytest.raises(ControlError, match="cannot be stopped now"):
            stop_cell(theirs, 0)
        assert mine.is_untouched()
        holder.locks[1].write_text(str(holder.process.pid))
        assert stop_pool(theirs) == holder.process.pid
        assert holder.process.wait(60) < 0


def test_starting_a_cell_writes_through_no_link(theirs: Path, tmp_path: Path) -> None:
    job = read_plan(theirs).jobs[0]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    first_run(theirs).symlink_to(outside)
    with pytest.raises(StorageError, match="it is a link"):
        start_cell(theirs, job, command=COMMAND)
    first_run(theirs).unlink()
    (theirs / ".jobs").rmdir()
    (theirs / ".jobs").symlink_to(outside)
    with pytest.raises(StorageError, match="it is a link"):
        start_cell(theirs, job, command=COMMAND)
    (theirs / ".jobs").unlink()
    (first_run(theirs) / START).hardlink_to(outside / "file")
    with pytest.raises(StorageError, match="another name"):
        start_cell(theirs, job, command=COMMAND)
    assert {path.name for path in outside.iterdir()} == {"file"}
    assert (outside / "file").read_text() == "mine"


def test_a_plan_with_a_field_of_another_type_is_damaged(theirs: Path) -> None:
    header, *jobs = (theirs / PLAN).read_text().splitlines()
    (theirs / PLAN).write_text("\n".join([json.dumps({**json.loads(header), "id": []}), *jobs]))
    with pytest.raises(FormatError, match="expected a text, got list"):
        read_plan(theirs)


def test_large_data_files_are_compared_by_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giant = tmp_path / "data.npy"
    giant.touch()
    os.truncate(giant, 1 << 40)
    monkeypatch.setattr(cell_address, "_digest_file", lambda *_: pytest.fail("it was read"))
    before = cell_address.fingerprint_data([giant])
    assert cell_address.fingerprint_data([giant]) == before
    os.utime(giant, ns=(1, 1))
    assert cell_address.fingerprint_data([giant]) != before


@contextmanager
def open_umask() -> Iterator[None]:
    """As where a group shares its files."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes_for_others(folder: Path) -> dict[str, int]:
    """What other users may look into; what is in a closed run directory is safe."""
    paths = [folder, *folder.iterdir(), *folder.glob(".jobs/*")]
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in paths}
    return {name: mode for name, mode in modes.items() if mode & 0o077}


@pytest.mark.parametrize("more", [[], ["hydra.sweep.dir=outputs/multiruns/mine"]])
def test_other_users_cannot_look_into_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    held: list[Path] = []
    monkeypatch.setattr(run_sweep, "run_held", lambda folder, *_: held.append(folder.absolute()))
    with open_umask():
        assert main(["train", "-m", "loop=mlp", "data=digits", "trainer.seed=0,1", *more]) == 0
    (folder,) = held
    assert {PLAN, ".pool.lock"} <= {path.name for path in folder.iterdir()}
    assert modes_for_others(folder) == {}


def test_other_users_cannot_look_into_the_cells_of_a_sweep(tmp_path: Path) -> None:
    folder = sweep_in(tmp_path)
    folder.chmod(0o700)
    with open_umask(), hold_sweep(folder):
        SweepPool(folder, options(only=(0,)), on_change=lambda what, cell: None).run()
    assert {path.name for path in folder.glob(".jobs/*")} == {"000"}
    assert modes_for_others(folder) == {}
