"""A script sees under `midstep run` what `python SCRIPT` gives it; these import no torch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm import run_warm

SCRIPT = Path(__file__).parent / "scripts" / "as_python.py"
SOURCES = str(Path(__file__).parents[3] / "src")
ENDS = ["zero", "three", "raise", "interrupt", "terminate"]
BARE = [sys.executable]
RUN = [sys.executable, "-m", "midstep", "run", "--no-page"]


def both(tmp_path: Path, *arguments: str, **options) -> tuple[dict, dict]:
    """What a program saw and printed as `python ARGS`, and as `midstep run ARGS`."""
    sides = []
    for start in (BARE, RUN):
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        (folder / "seen.json").unlink(missing_ok=True)
        # `midstep` is on the path of both, so that the paths can be compared.
        env = {**os.environ, "PYTHONPATH": SOURCES}
        done = subprocess.run(
            [*start, *arguments],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )
        file = folder / "seen.json"
        seen = json.loads(file.read_text()) if file.exists() else None
        sides.append(
            {"seen": seen, "code": done.returncode, "out": done.stdout, "err": own_lines(done)}
        )
    return sides[0], sides[1]


def own_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error without our lines."""
    lines = done.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("midstep: "))


@pytest.mark.parametrize("end", ENDS)
def test_a_script_sees_and_ends_as_with_python(tmp_path, end):
    (tmp_path / "work").mkdir()
    link = tmp_path / "work" / "linked.py"
    link.symlink_to(SCRIPT)  # the folder of the real file comes first on the path
    bare, run = both(tmp_path, link.name, end, "-h", "--no-page")
    assert run == bare
    assert run["seen"]["argv"] == ["linked.py", end, "-h", "--no-page"]
    assert run["seen"]["heavy"] == []
    assert run["seen"]["pickled"]


def test_a_module_sees_what_python_m_gives_it(tmp_path):
    package = tmp_path / "work" / "nets"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(SCRIPT.read_text())
    bare, run = both(tmp_path, "-m", "nets.train", "raise", "--lr", "1")
    assert run == bare
    assert run["seen"]["spec"][0] == "nets.train"
    assert "<frozen runpy>" in run["err"]  # as with python


def test_a_script_with_a_syntax_error_is_refused_as_by_python(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text("def broken(:\n")
    bare, run = both(tmp_path, "train.py")
    assert run == bare


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.py"], "there is no script missing.py"),
        (["--break", "loss >", str(SCRIPT)], "does not parse"),
        (["--save-dir", "/dev/null/x", str(SCRIPT)], "/dev/null cannot be written"),
        (["--port", "TAKEN", str(SCRIPT)], "is taken"),
    ],
)
def test_wrong_options_are_refused_in_one_line_before_the_script(tmp_path, arguments, words):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [port if each == "TAKEN" else each for each in arguments]
        done = run_warm("run", *arguments, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("midstep: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
