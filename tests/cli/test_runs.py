"""`midstep runs`: true end states from facts alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.cli.output.text_format import format_time
from midstep.core.moments import Moment
from midstep.facts import FactsWriter

KILLED = """
import os, signal, sys
from midstep.facts import FactsWriter, Lease
with Lease.acquire(sys.argv[1], "0123456789ab") as lease:
    facts = FactsWriter(sys.argv[1], run_id="0123456789ab")
    facts.event("on_start", name="killed")
    facts.log(1, loss=0.5)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write_run(
    directory: Path, *, status: str = "finished", run_id: str | None = None, name: str = "my run"
) -> str:
    with FactsWriter(directory, run_id=run_id) as facts:
        facts.event(Moment.START, name=name, seed=3)
        for step in range(1, 4):
            facts.log(step, loss=1.0 / step)
        facts.event(Moment.TRAIN_END, status=status, step=3)
        return facts.run_id


def listed(save_dir: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(["runs", "ls", "--save-dir", str(save_dir), "--json"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_list_has_each_run_with_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "run_a")
    second = write_run(tmp_path / "run_b", status="stopped")
    found = {
        run["id"]: (run["name"], run["state"], run["step"]) for run in listed(tmp_path, capsys)
    }
    assert found == {first: ("my run", "finished", 3), second: ("my run", "stopped", 3)}


def test_killed_run_is_listed_as_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "run_k")], check=False, env=dict(os.environ)
    )
    assert killed.returncode == -signal.SIGKILL
    (run,) = listed(tmp_path, capsys)
    assert (run["name"], run["state"]) == ("killed", "killed")


def test_table_names_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = write_run(tmp_path / "run_a")
    assert main(["runs", "ls", "--save-dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert run_id in told
    assert "finished" in told
    assert "run_a" in told


@pytest.mark.parametrize("how", ["id", "start", "name", "path"])
def test_show_finds_a_run_by_id_start_name_or_path(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = write_run(tmp_path / "run_a")
    asked = {"id": run_id, "start": run_id[:8], "name": "run_a", "path": str(tmp_path / "run_a")}
    assert main(["runs", "show", asked[how], "--save-dir", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["state"], shown["problems"]) == (run_id, "finished", [])
    assert shown["last"]["loss"] == pytest.approx(1 / 3)
    assert shown["header"]["seed"] == 3


def test_show_for_people_has_one_fact_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run_a")
    assert main(["runs", "show", "run_a", "--save-dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    lines = dict(line.split(maxsplit=1) for line in told)
    assert [line.split()[0] for line in told[:5]] == ["name", "id", "state", "step", "last.loss"]
    assert (lines["state"], lines["step"], lines["last.loss"]) == ("finished", "3", "0.33333")
    assert (lines["header.seed"], lines["took"]) == ("3", "0:00:00")
    assert "header.mono" not in lines


def test_ambiguous_start_asks_for_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run_a")
    write_run(tmp_path / "run_b")
    assert main(["runs", "show", "", "--save-dir", str(tmp_path)]) == 2
    assert "names 2 runs" in capsys.readouterr().err


def test_a_whole_name_goes_before_the_start_of_another_runs_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "a", run_id="b23456789abc")
    write_run(tmp_path / "b", run_id="c23456789abc")
    for named, run_id in (("a", "b2"), ("b", "c2"), ("b2", "b2"), ("c", "c2")):
        assert main(["runs", "show", named, "--json", "--save-dir", str(tmp_path)]) == 0
        assert json.loads(capsys.readouterr().out)["id"].startswith(run_id)


VERBS = (
    ("show",),
    ("tail", "--no-follow"),
    ("export",),
    ("stops",),
    ("media",),
    ("console",),
    ("figures",),
    ("rm", "--dry-run"),
)
"""Every verb of `midstep runs` that takes a stored run; `terminate` needs a process."""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_every_verb_takes_the_name_that_the_list_prints(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run_a", name="my run")
    write_run(tmp_path / "run_b", name="another")
    code = main(["runs", *verb, "my run", "--save-dir", str(tmp_path)])
    told = capsys.readouterr()
    assert "no run" not in told.err
    is_without_epochs = "no epoch to draw" in told.err
    assert (code, is_without_epochs) == ((2, True) if verb[0] == "figures" else (0, False))


@pytest.mark.parametrize("verb", [*VERBS, ("terminate",)], ids=lambda verb: verb[0])
def test_a_name_of_several_runs_is_refused_with_their_ids_and_start_times(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [write_run(tmp_path / folder) for folder in ("run_a", "run_b")]
    started = {run["id"]: format_time(run["started_at"]) for run in listed(tmp_path, capsys)}
    assert main(["runs", *verb, "my run", "--save-dir", str(tmp_path)]) == 2
    refused = capsys.readouterr().err
    assert "my run names 2 runs" in refused
    for run_id in ids:
        assert f"{run_id} (started {started[run_id]})" in refused


def test_a_name_goes_before_the_start_of_another_runs_id_and_after_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "one", run_id="b23456789abc", name="c2")
    write_run(tmp_path / "two", run_id="c23456789abc", name="one")
    for given, run_id in (("c2", "b2"), ("one", "b2"), ("c23", "c2")):
        assert main(["runs", "show", given, "--json", "--save-dir", str(tmp_path)]) == 0
        assert json.loads(capsys.readouterr().out)["id"].startswith(run_id)


def test_folder_that_is_no_run_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    assert listed(tmp_path, capsys) == []
