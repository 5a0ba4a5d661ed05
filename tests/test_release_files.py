"""Workflows, citation, templates and hooks of a release agree with the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import midstep
from midstep import __version__
from midstep.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def commands(workflow: Path) -> list[str]:
    steps = [step for job in read(workflow)["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_complete_and_asks_for_no_index(workflow: Path) -> None:
    content = read(workflow)
    # YAML reads the key `on` as true.
    assert {"name", True, "permissions", "jobs"} <= content.keys()
    for job in content["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 90
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert all("@" in step["uses"] for step in job["steps"] if "uses" in step)
    assert not re.search(r"index-url|https?://", workflow.read_text())


def test_the_workflow_of_a_change_runs_what_a_developer_runs() -> None:
    assert ".ci/run" in commands(ROOT / ".github/workflows/ci.yml")
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_a_release_serves_the_page_of_its_wheel_without_node() -> None:
    tried = [
        line
        for text in commands(ROOT / ".github/workflows/release.yml")
        for line in text.splitlines()
        if "try_wheel" in line
    ]
    assert [line.split()[:2] for line in tried] == [["env", 'PATH="$RUNNER_TEMP/fresh/bin"']]


def test_workflows_install_no_program_that_ubuntu_lacks() -> None:
    lines = [line for path in WORKFLOWS for text in commands(path) for line in text.splitlines()]
    assert not [line for line in lines if "apt-get install" in line and "chromium" in line]


def test_make_targets_of_the_workflows_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lines = [line for path in WORKFLOWS for text in commands(path) for line in text.splitlines()]
    called = [line.split()[1:] for line in lines if line.startswith("make ")]
    assert called
    for words in called:
        for word in words:
            name, equals, _ = word.partition("=")
            expected = rf"^{name} \?= " if equals else rf"^{name}:"
            assert re.search(expected, makefile, re.MULTILINE), word


def test_the_matrix_has_the_oldest_and_the_pinned_torch_and_every_python() -> None:
    matrix = read(".github/workflows/ci.yml")["jobs"]["versions"]["strategy"]["matrix"]["include"]
    torch_of = {entry["torch"] for entry in matrix}
    oldest = next(d for d in PROJECT["dependencies"] if d.startswith("torch>=")).split(">=")[1]
    pinned = re.search(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert torch_of == {f"{oldest}.0", pinned[1]}
    prefix = "Programming Language :: Python :: 3."
    classified = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)}
    assert {entry["python"] for entry in matrix} == classified
    assert PROJECT["requires-python"] == f">={min(classified, key=lambda v: int(v[2:]))}"


def test_the_citation_names_the_version_and_the_licence() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]


def test_the_project_is_described_in_the_same_words_everywhere() -> None:
    words = PROJECT["description"]
    assert (midstep.__doc__ or "").startswith(words)
    assert words.partition(":")[0].removeprefix("A ") in read("CITATION.cff")["title"]
    assert str(app.info.help).startswith(words)


def test_templates_and_hooks_parse() -> None:
    for name in ("bug", "idea"):
        template = read(f".github/ISSUE_TEMPLATE/{name}.yml")
        assert template["name"]
        assert {field["type"] for field in template["body"]} <= {"textarea", "dropdown", "input"}
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert lint is not None
    checks = lint[1].replace("$(BIN)", ".venv/bin").replace("--quiet ", "")
    for hook in hooks:
        assert hook["entry"] in checks, f"make lint does not run {hook['entry']!r}"


def test_no_address_is_invented() -> None:
    assert "urls" not in PROJECT
    assert "authors" not in PROJECT
