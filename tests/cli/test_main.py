"""The command line as a whole: help, version, and errors in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import midstep
from midstep.cli.ctl.command_options import FORMS, TerminalForm
from midstep.cli.main import app, main
from midstep.core.commands.catalog import COMMANDS

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # any import of it fails from here on
from midstep.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_without_torch(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"midstep {midstep.__version__}\n"


@pytest.mark.parametrize("path", ["", "demo", "ctl", "ctl break", "ctl watch", "data", "runs"])
def test_help_teaches_with_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path.split(), "--help"]) == 0
    assert "Examples: midstep" in " ".join(capsys.readouterr().out.split())


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _leaves(each, (*path, name))
    if path and not hasattr(command, "commands"):
        yield path


@pytest.mark.parametrize("path", list(_leaves(typer.main.get_command(app))), ids=" ".join)
def test_every_command_has_an_example_of_itself(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"Examples?: midstep {' '.join(path)}\b", told)


def _forms() -> dict[str, TerminalForm]:
    return {name: FORMS.get(name, TerminalForm()) for name in COMMANDS}


def test_help_of_ctl_begins_with_pause_step_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ctl", "--help"]) == 0
    _, *panels = re.split("─ ([A-Z][a-z, ]+) ─", capsys.readouterr().out)
    names = [re.findall(r"^│ ([a-z][a-z-]*) ", text, re.MULTILINE) for text in panels[1::2]]
    commands = dict(zip(panels[::2], names, strict=True))
    assert list(commands) == [
        "Options",
        "Move the run",
        "Look into the run",
        "Change, save and load",
        "Any command",
    ]
    assert commands["Move the run"][:3] == ["pause", "step", "back"]
    derived = {form.name or name.replace("_", "-") for name, form in _forms().items()}
    assert derived <= {*commands["Move the run"], *commands["Change, save and load"]}
    ctl = typer.main.get_command(app).commands["ctl"]  # type: ignore[attr-defined]
    assert sorted(name for group in names for name in group) == sorted(ctl.commands)


@pytest.mark.parametrize(
    "path",
    ["dataset info", "runs end", "ctl data", "ctl force", "ctl rewind", "ctl run", "ctl runs"],
)
def test_a_verb_has_one_name_only(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(path.split()) == 2
    assert "No such command" in capsys.readouterr().err


def test_nothing_has_run_here_yet_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["runs", "ls"]) == 0
    told = capsys.readouterr().out
    assert told == "no runs under outputs/runs yet; start one with: midstep demo\n"
    assert main(["runs", "ls", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["demo", "--help"], ["ctl", "--help"], ["runs", "ls", "--help"]]
)
def test_help_works_without_torch(arguments: list[str], tmp_path: Path) -> None:
    answer = run_without_torch(*arguments, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_runs_and_ctl_work_without_torch(tmp_path: Path) -> None:
    (tmp_path / "outputs" / "runs").mkdir(parents=True)
    listed = run_without_torch("runs", "ls", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "no runs under outputs/runs yet" in listed.stdout
    asked = run_without_torch("ctl", "state", cwd=tmp_path)
    assert asked.returncode == 2
    assert asked.stderr.startswith("midstep: no live run below outputs/runs")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs", "ls", "--save-dir", "nowhere"], "nowhere is not a folder"),
        (["runs", "show", "abc", "--save-dir", "."], "no run abc in ."),
        (["ctl", "pause", "--save-dir", "nowhere"], "no live run below nowhere"),
        (["ctl", "pause", "--url", "http://127.0.0.1:9"], "no answer from 127.0.0.1:9"),
        (["ctl", "pause", "--url", "gopher://x"], "expected an address like http://"),
        (["ctl", "break", "add"], "a breakpoint takes one condition, got 0"),
        (["ctl", "break", "add", "loss > 1", "--every", "3"], "one condition, got 2"),
    ],
)
def test_expected_failure_is_one_line_and_code_2(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.err.startswith("midstep: ")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.parametrize(
    "arguments", [["fly"], ["demo", "--steps", "0"], ["demo", "--steps", "x"], ["ctl", "step", "0"]]
)
def test_wrong_usage_is_code_2_without_a_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_reader_that_leaves_early_is_no_crash(tmp_path: Path) -> None:
    command = f"{sys.executable} -m midstep --help | head -n 1"
    answer = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=False)
    assert b"Traceback" not in answer.stderr
    assert b"BrokenPipe" not in answer.stderr
