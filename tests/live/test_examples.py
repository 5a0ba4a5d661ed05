"""The examples run to their end, as they stand, and leave what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from midstep.facts import FactsReader, end_state

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return monkeypatch


def only_run() -> Path:
    (directory,) = Path("outputs/runs").iterdir()
    return directory


def test_plain_loop_runs_and_says_where_everything_is(in_folder, capsys):
    in_folder.setenv("STEPS", "30")
    runpy.run_path(str(EXAMPLES / "plain_loop.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "training at http://127.0.0.1:" in said
    assert said.splitlines()[-1].startswith("30 steps, last loss")
    assert end_state(only_run()).state == "finished"
    assert len(FactsReader(only_run()).series(["loss"])["loss"].step) == 30


def test_plain_loop_switched_off_gives_the_same_numbers_and_leaves_nothing(in_folder, capsys):
    in_folder.setenv("STEPS", "5")
    runpy.run_path(str(EXAMPLES / "plain_loop.py"), run_name="__main__")
    last = capsys.readouterr().out.splitlines()[-1]
    in_folder.setenv("MIDSTEP_MODE", "off")
    runpy.run_path(str(EXAMPLES / "plain_loop.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [last]
    assert len(list(Path("outputs/runs").iterdir())) == 1


def test_attach_runs_and_records_every_epoch(in_folder, capsys):
    in_folder.setenv("EPOCHS", "2")
    runpy.run_path(str(EXAMPLES / "attach.py"), run_name="__main__")
    captured = capsys.readouterr()
    page, run, end = captured.err.splitlines()
    assert page.startswith("midstep: page http://127.0.0.1:")
    assert run == f"midstep: run {only_run()}"
    assert end == "midstep: finished after 188 steps"
    assert "validation accuracy" in captured.out
    events = FactsReader(only_run()).events()
    ends = [event for event in events if event["moment"] == "on_epoch_end"]
    assert [end["step"] for end in ends] == [94, 188]
    assert ends[1]["metrics"].keys() == {"val_accuracy"}


def test_attach_switched_off_gives_the_same_numbers(in_folder, capsys):
    in_folder.setenv("EPOCHS", "1")
    runpy.run_path(str(EXAMPLES / "attach.py"), run_name="__main__")
    attached = capsys.readouterr().out
    in_folder.setenv("MIDSTEP_MODE", "off")
    runpy.run_path(str(EXAMPLES / "attach.py"), run_name="__main__")
    assert capsys.readouterr().out == attached
    assert len(list(Path("outputs/runs").iterdir())) == 1


def test_session_runs_and_goes_on_where_it_was(in_folder, capsys):
    for epochs, steps in (("1", 63), ("2", 126)):
        in_folder.setenv("EPOCHS", epochs)
        runpy.run_path(str(EXAMPLES / "session.py"), run_name="__main__")
        assert f"{steps} steps, run" in capsys.readouterr().out
    assert only_run().name == "rings"
    ends = [e for e in FactsReader(only_run()).events() if e["moment"] == "on_epoch_end"]
    assert [end["step"] for end in ends] == [63, 126]
