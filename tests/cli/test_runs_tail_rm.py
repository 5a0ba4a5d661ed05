"""`midstep runs tail` and `midstep runs rm`, and what `ls` chooses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.cli.runs import tail_run as tail_command
from midstep.cli.runs.tail_run import follow_run
from midstep.facts import FactsWriter
from midstep.facts.index.labels import write_labels
from tests.facts.stored_runs import write_run


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["runs", *arguments]) == 0
    return capsys.readouterr().out


# -- ls -------------------------------------------------------------------------------------------


def test_ls_chooses_sorts_and_limits(tmp_path: Path, capsys):
    for number in range(4):
        write_run(tmp_path / f"run_{number}", lr=0.1 * number)
    write_labels(tmp_path / "run_2", tags=["good"])
    place = ["--save-dir", str(tmp_path), "--json"]
    found = json.loads(told(capsys, "ls", "--where", "config.lr>0.05", "--sort", "lr", *place))
    assert [run["config"]["lr"] for run in found] == pytest.approx([0.1, 0.2, 0.3])
    (found,) = json.loads(told(capsys, "ls", "--tag", "good", *place))
    assert Path(found["directory"]).name == "run_2"
    assert json.loads(told(capsys, "ls", "--state", "failed", *place)) == []
    assert len(json.loads(told(capsys, "ls", "run_1", *place))) == 1
    assert "2 of 4 runs" in told(capsys, "ls", "--limit", "2", "--save-dir", str(tmp_path))


def test_ls_refuses_a_condition_that_is_none(tmp_path: Path, capsys):
    assert main(["runs", "ls", "--where", "lr", "--save-dir", str(tmp_path)]) == 2
    assert "config.lr=0.1" in capsys.readouterr().err


def test_show_has_size_tags_and_note(tmp_path: Path, capsys):
    write_run(tmp_path / "a")
    write_labels(tmp_path / "a", tags=["good", "base"], note="try again")
    shown = told(capsys, "show", "a", "--save-dir", str(tmp_path))
    assert "good, base" in shown
    assert "try again" in shown
    assert " kB" in shown


# -- tail -----------------------------------------------------------------------------------------


def test_tail_of_an_ended_run_shows_its_last_facts_and_how_it_ended(tmp_path: Path, capsys):
    write_run(tmp_path / "a")
    lines = told(capsys, "tail", "a", "--lines", "3", "--save-dir", str(tmp_path)).splitlines()
    assert len(lines) == 4
    assert "step 10  loss 0.1 · lr 0.1" in lines[0]
    assert "epoch end  epoch 2 · step 10 · train_loss 0.5" in lines[1]
    assert "train end  step 10 · status finished" in lines[2]
    assert lines[3] == "finished"


def test_tail_shows_the_asked_scalars_as_json(tmp_path: Path, capsys):
    write_run(tmp_path / "a")
    place = ["--save-dir", str(tmp_path), "--json", "--names", "lr"]
    found = [json.loads(line) for line in told(capsys, "tail", "a", *place).splitlines()]
    scalars = [entry["scalars"] for entry in found if "scalars" in entry]
    assert scalars
    assert all(each == {"lr": 0.1} for each in scalars)
    assert found[-1] == {"state": "finished", "reason": None}


def test_tail_follows_a_live_run_and_ends_with_it(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tail_command, "POLL_EVERY_S", 0.0)
    facts = FactsWriter(tmp_path / "a")
    facts.event("on_start", name="a")
    facts.log(1, loss=1.0)
    entries = follow_run(tmp_path / "a", lines=10, follow=True)
    assert next(entries)["event"]["moment"] == "on_start"
    assert next(entries)["step"] == 1
    facts.log(2, loss=0.5)
    facts.log(2, grad_norm=3.0)
    assert next(entries)["scalars"] == {"loss": 0.5, "grad_norm": 3.0}
    facts.event("on_train_end", status="stopped", step=2)
    assert next(entries)["event"]["status"] == "stopped"
    assert next(entries) == {"state": "stopped", "reason": None}
    assert list(entries) == []
    facts.close()


def test_tail_counts_the_steps_of_a_fast_loop_instead_of_flooding(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tail_command, "POLL_EVERY_S", 0.0)
    with FactsWriter(tmp_path / "a") as facts:
        facts.log(1, loss=1.0)
        entries = follow_run(tmp_path / "a", lines=1, follow=True)
        next(entries)
        for step in range(2, 502):
            facts.log(step, loss=1.0)
        assert next(entries) == {"skipped": 480}
        assert [next(entries)["step"] for _ in range(20)] == list(range(482, 502))


def test_tail_without_follow_ends_at_once(tmp_path: Path):
    with FactsWriter(tmp_path / "a") as facts:
        facts.log(1, loss=1.0)
        assert len(list(follow_run(tmp_path / "a", lines=0, follow=False))) == 0


# -- rm -------------------------------------------------------------------------------------------


def test_a_dry_run_shows_bytes_and_what_would_stay_and_deletes_nothing(tmp_path: Path, capsys):
    write_run(tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    shown = told(capsys, "rm", "a", "--dry-run", "--save-dir", str(tmp_path))
    assert " kB" in shown
    assert "not its own, stays: notes.txt" in shown
    as_json = told(capsys, "rm", "a", "--dry-run", "--json", "--save-dir", str(tmp_path))
    (plan,) = json.loads(as_json)
    assert plan["bytes"] > 1000
    assert plan["kept"] == ["notes.txt"]
    assert (tmp_path / "a" / "facts" / "events.jsonl").exists()


def test_rm_deletes_with_yes_and_names_what_stays(tmp_path: Path, capsys):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("mine")
    shown = told(capsys, "rm", "a", "b", "--yes", "--save-dir", str(tmp_path))
    assert "stays: b/notes.txt" in shown
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["notes.txt"]
    assert told(capsys, "ls", "--json", "--save-dir", str(tmp_path)).strip() == "[]"


def test_rm_without_anybody_to_ask_deletes_nothing(tmp_path: Path, capsys, monkeypatch):
    write_run(tmp_path / "a")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["runs", "rm", "a", "--save-dir", str(tmp_path)]) == 2
    assert "--yes" in capsys.readouterr().err
    assert (tmp_path / "a" / "facts").is_dir()


@pytest.mark.parametrize(("answer", "gone"), [(True, True), (False, False)])
def test_rm_asks_first(tmp_path: Path, monkeypatch, capsys, answer, gone):
    write_run(tmp_path / "a")
    asked: list[str] = []
    monkeypatch.setattr(
        "midstep.cli.runs.remove_runs.sys.stdin.isatty", lambda: True, raising=False
    )
    monkeypatch.setattr("typer.confirm", lambda text: asked.append(text) or answer)
    told(capsys, "rm", "a", "--save-dir", str(tmp_path))
    assert "Delete a (" in asked[0]
    assert (tmp_path / "a").exists() is not gone


def test_rm_refuses_a_live_run(tmp_path: Path, capsys):
    with FactsWriter(tmp_path / "a") as facts:
        facts.event("on_start", name="a")
        assert main(["runs", "rm", "a", "--yes", "--save-dir", str(tmp_path)]) == 2
    assert "stop it first" in capsys.readouterr().err
    assert (tmp_path / "a" / "facts" / "events.jsonl").exists()


def test_rm_refuses_a_link(tmp_path: Path, capsys):
    write_run(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    assert main(["runs", "rm", str(tmp_path / "link"), "--yes"]) == 2
    assert "is a link" in capsys.readouterr().err
    assert (tmp_path / "real" / "a" / "facts").is_dir()
