"""What `make` says when something it needs is missing: one line with the remedy, code 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    made = folder / name
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)


def make(folder: Path, *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "Makefile", folder)
    return subprocess.run(
        [str(shutil.which("make")), *arguments],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with good stand-ins for python3, node and npm; a test spoils one of them."""
    folder = tmp_path / "tools"
    program(folder, "python3", f'exec "{sys.executable}" "$@"')
    program(folder, "node", "exit 0")
    program(folder, "npm", "exit 0")
    for name in ("sh", "find", "mkdir", "touch", "rm", "test"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


@pytest.mark.parametrize(
    ("name", "script", "words"),
    [
        ("python3", '[ "$1" = -V ] && echo "Python 3.9.2"; exit 1', "Python 3.9.2 is too old"),
        ("node", '[ "$1" = -v ] && echo v18.1.0; exit 1', "Node v18.1.0 is too old"),
        ("python3", None, "python3 was not found; install Python 3.11"),
        ("node", None, "node or npm was not found; install Node 20"),
        ("npm", None, "node or npm was not found; install Node 20"),
    ],
)
def test_missing_or_old_program_is_named_with_its_remedy(
    tmp_path: Path, tools: Path, name: str, script: str | None, words: str
) -> None:
    (tools / name).unlink()
    if script is not None:
        program(tools, name, script)
    answer = make(tmp_path, ".stamps/venv", path=str(tools))
    told = [line for line in answer.stderr.splitlines() if not line.startswith("make")]
    assert answer.returncode == 2
    assert len(told) == 1
    assert told[0].startswith("midstep: ")
    assert words in told[0]
    assert not (tmp_path / ".venv").exists()


def test_python_without_venv_names_the_package(tmp_path: Path, tools: Path) -> None:
    (tools / "python3").unlink()
    program(tools, "python3", f'[ "$1" = -m ] && exit 1; exec "{sys.executable}" "$@"')
    answer = make(tmp_path, ".stamps/venv", path=str(tools))
    assert answer.returncode == 2
    assert "apt-get install python3-venv" in answer.stderr


def test_missing_chromium_is_told_with_its_remedy(tmp_path: Path, tools: Path) -> None:
    program(tools, "id", "echo 1000")
    answer = make(tmp_path, "programs", path=str(tools))
    assert answer.returncode == 0
    assert "sudo apt-get install chromium strace" in answer.stdout


def test_help_lists_the_targets(tmp_path: Path) -> None:
    answer = make(tmp_path, path=os.environ["PATH"])
    for target in ("demo", "test", "lint", "bench", "soak", "dev", "docs", "clean"):
        assert f"make {target} " in answer.stdout


def test_torch_build_is_told_in_words() -> None:
    tool = str(ROOT / "tools" / "torch_build.py")
    subprocess.run([sys.executable, "-m", "doctest", tool], check=True)
    told = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("torch 2.")
    assert told.stdout.endswith(", already installed\n")
