"""`midstep train -m` and `midstep sweep`: what they list, refuse and leave behind."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.core.ids import new_run_id
from midstep.loops.sweep.plan import PLAN, read_plan, write_plan
from midstep.server.sweeps.sweep_pool import PoolOptions, SweepPool, hold_sweep
from tests.tiny_sweep import options, plan_of, sweep_in

TRAIN = ["train", "-m", "loop=mlp", "data=digits", "hydra.job.name=widths"]


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def outputs(in_folder: Path) -> Path:
    """An outputs folder with a sweep of which one cell failed and one is missing."""
    folder = sweep_in(in_folder / "outputs", plan_of(cells={1: {"refuse": True}}))
    with hold_sweep(folder):
        SweepPool(folder, options(only=(0, 1, 2)), on_change=lambda what, cell: None).run()
    return folder


def test_a_dry_run_lists_the_cells_and_writes_nothing(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "trainer.seed=0,1", "loop.dropout=0,0.2", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[3].startswith("cell 3 · seed=1 dropout=0.2 · missing · ")
    assert lines[4] == "a new sweep · 4 cells: 0 finished, 4 missing"
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["trainer.sede=0,1"], "sede"),
        (["trainer.seed=0,-1"], "trainer.seed"),
        (["trainer.seed=0,1", "data=h5", "data.path=missing.h5"], "missing.h5"),
        (["trainer.seed=0"], "several values"),
        (["trainer.seed=0,1", "hydra.run.dir=x"], "hydra.sweep.dir"),
    ],
)
def test_a_wrong_sweep_is_refused_in_one_line_and_leaves_nothing(
    in_folder: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], words: str
) -> None:
    assert main([*TRAIN, *overrides]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert list(in_folder.iterdir()) == []


def test_status_says_what_is_missing_and_what_to_do(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "status", "tiny"]) == 0
    shown = capsys.readouterr().out
    assert "cell 0 · level=1 seed=0 · finished · best validation loss 1" in shown
    assert "cell 1 · level=1 seed=1 · failed · its process ended with code 2: " in shown
    assert "cell 3 · level=2 seed=1 · missing" in shown
    assert "4 cells: 2 finished, 1 failed, 1 missing" in shown
    assert f"midstep sweep run outputs/multiruns/{outputs.name} --retry-failed" in shown
    assert main(["sweep", "status", read_plan(outputs).id, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert [cell["open"] for cell in status["cells"]] == [False, False, False, True]
    assert status["pool"] is None
    assert main(["sweep", "ls"]) == 0
    assert outputs.name in capsys.readouterr().out


def test_a_sweep_that_is_not_clear_is_refused(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "status", "other"]) == 2
    assert "midstep sweep ls" in capsys.readouterr().err
    twin = outputs.with_name("exp_20260103T030405Z_tiny")
    twin.mkdir()
    write_plan(twin, replace(read_plan(outputs), id=new_run_id()))
    assert main(["sweep", "status", "tiny"]) == 2
    assert "names 2 sweeps" in capsys.readouterr().err
    assert main(["sweep", "stop", twin.name]) == 2
    assert "no process runs this sweep" in capsys.readouterr().err


def test_a_damaged_plan_names_the_way_out(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = in_folder / "outputs" / "multiruns" / "exp_20260102T030405Z_torn"
    folder.mkdir(parents=True)
    (folder / PLAN).write_text('{"kind":')
    assert main(["sweep", "status", str(folder)]) == 2
    assert "midstep train -m … --new" in capsys.readouterr().err
    assert main([*TRAIN, "trainer.seed=0,1", "--dry-run"]) == 0  # it hides no other sweep
    assert "a new sweep" in capsys.readouterr().out


def test_cells_share_the_cores_unless_the_threads_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert PoolOptions(jobs=2).environment == {"OMP_NUM_THREADS": "4"}
    assert PoolOptions(jobs=16).environment == {"OMP_NUM_THREADS": "1"}
    assert PoolOptions(jobs=2, threads=3).environment == {"OMP_NUM_THREADS": "3"}
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert PoolOptions(jobs=2).environment == {}
