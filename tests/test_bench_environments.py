"""Environments of libraries that benchmarks compare with, and rows of those that are not there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmarks import environments
from benchmarks.data import bench_loaders
from benchmarks.environments import NoEnvironment, environment
from benchmarks.facts import bench_peers
from benchmarks.figures import Figure

import midstep


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was asked from pip, which is not asked."""
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "_install", lambda python, pins, names: asked.append(names))
    return asked


def test_environment_is_made_once_for_a_list_of_packages(installed, capsys) -> None:
    python = environment("some", "one", "two")
    assert capsys.readouterr().err == "installing one, two into .bench-env/some\n"
    assert environment("some", "one", "two") == python
    assert installed == [("one", "two")]
    assert capsys.readouterr().err == ""
    environment("some", "one")
    assert installed == [("one", "two"), ("one",)]


def test_environment_made_for_another_torch_is_made_anew(installed, monkeypatch) -> None:
    environment("some", "one")
    monkeypatch.setattr(environments, "_torch_pin", lambda: "torch==0.0")
    python = environment("some", "one")
    assert len(installed) == 2
    assert (python.parents[1] / "constraints.txt").read_text() == "torch==0.0\n"


def test_environment_borrows_what_runs_here_behind_its_own(installed) -> None:
    python = environment("some", "one")
    ask = "import json, sys, numpy, midstep; print(json.dumps([numpy.__file__, midstep.__file__, "
    ask += "sys.prefix, [each for each in sys.path if each.endswith('site-packages')]]))"
    said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    numpy_at, midstep_at, prefix, places = json.loads(said.stdout)
    assert (numpy_at, midstep_at) == (np.__file__, midstep.__file__)
    assert Path(prefix) == python.parents[1]
    assert Path(places[0]).is_relative_to(prefix)


def test_failed_install_tells_what_pip_said_and_is_tried_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    for _ in range(2):
        with pytest.raises(NoEnvironment, match="could not install no-such-package-of-midstep:\n"):
            environment("some", "no-such-package-of-midstep")


@pytest.mark.parametrize(("name", "passes"), [("stateful", False), ("litdata", None)])
def test_library_that_is_not_there_misses_its_bar_only_if_it_is_asked_for(name, passes) -> None:
    row = bench_loaders.not_measured(name, "no wheel | for this Python")
    assert row.passes is passes
    assert row.row().count("|") == 7
    assert "not measured: no wheel / for this Python" in row.row()


def test_one_failing_library_leaves_the_others_their_rows(monkeypatch) -> None:
    def measured(name: str) -> list[Figure]:
        if name == "grain":
            raise NoEnvironment("pip could not install grain:\nERROR: no wheel")
        if name == "huggingface":
            raise RuntimeError("ImportError: something")
        return [Figure(name=name, value=12, unit="×", bar=10, at_least=True)]

    monkeypatch.setattr(bench_loaders, "measured", measured)
    found = list(bench_loaders.figures())
    assert [each.passes for each in found] == [True, False, None, True]
    assert [each.note for each in found][1:3] == [
        "not measured: ImportError: something",
        "not measured: ERROR: no wheel",
    ]


def test_a_tracker_that_cannot_be_measured_is_a_missed_bar(monkeypatch) -> None:
    times = dict.fromkeys(("p5_us", "p50_us", "p99_us"), 1.0)
    reads = dict.fromkeys(("list_first_s", "list_again_s", "histories_first_s"), 1.0)
    result = {**times, **reads, "histories_again_s": 1.0, "lost": 0, "acknowledged": 200}

    def measure(name: str) -> bench_peers.Result:
        if name == "aim":
            raise NoEnvironment("pip could not install aim:\nERROR: no wheel")
        return result

    monkeypatch.setattr(bench_peers, "_measure", measure)
    rows = list(bench_peers.figures())
    assert [row.note for row in rows if row.passes is False] == ["not measured: ERROR: no wheel"]
    assert sum(row.passes is True for row in rows) == 6
