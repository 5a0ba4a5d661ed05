"""`midstep serve`: its options, and what it says."""

from __future__ import annotations

import threading

import pytest

from midstep.cli.main import main
from tests.served import keep_port


@pytest.fixture
def at_once(monkeypatch):
    """The command leaves as soon as it would wait."""
    monkeypatch.setattr(threading.Event, "wait", _only_with_a_limit(threading.Event.wait))


def _only_with_a_limit(real):
    def wait(self, timeout=None):
        return True if timeout is None else real(self, timeout)

    return wait


def test_help_names_every_option(capsys):
    assert main(["serve", "--help"]) == 0
    told = capsys.readouterr().out
    for option in ("--port", "--host", "--allow-host", "--uds", "--read-only", "--new-token"):
        assert option in told
    assert "--data" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere/deeper"], "is not a folder"),
        (["nowhere", "--read-only"], "is not a folder"),
        (["--host", "0.0.0.0"], "--allow-host"),
        (["--uds", "s", "--port", "8765"], "leave --port and --host out"),
        (["--data", "nowhere"], "--data nowhere is not a folder"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_code_2(
    tmp_path, monkeypatch, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    assert main(["serve", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.usefixtures("at_once")
def test_a_folder_that_is_not_there_yet_is_made_so_that_a_first_run_can_be_started(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--port", "0"]) == 0
    assert "/#token=" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


@pytest.mark.usefixtures("at_once")
def test_it_prints_both_links_and_the_same_ones_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    port = keep_port(tmp_path / "outputs")
    assert main(["serve", "outputs"]) == 0
    first = capsys.readouterr().out
    assert first.count(f"http://127.0.0.1:{port}/#token=") == 2
    assert main(["serve", "outputs"]) == 0
    assert capsys.readouterr().out == first
    assert main(["serve", "outputs", "--new-token", "--read-only"]) == 0
    told = capsys.readouterr().out
    assert told.count("/#token=") == 1
    assert told != first


@pytest.mark.usefixtures("at_once")
def test_a_unix_socket_is_told_with_the_way_to_it(tmp_path, capsys):
    path = tmp_path / "s"
    assert main(["serve", str(tmp_path), "--uds", str(path)]) == 0
    assert f"ssh -L 8765:{path}" in capsys.readouterr().out
    assert not path.exists()
