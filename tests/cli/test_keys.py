"""Keys from a real (pseudo) terminal, and the terminal left as it was found."""

from __future__ import annotations

import os
import pty
import queue
import termios
from collections.abc import Iterator

import pytest

from midstep.cli.output import terminal_controls as module
from midstep.cli.output.terminal_controls import KeyReader


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Both ends: what the user types into, and what the process reads."""
    monkeypatch.setattr(module, "_is_foreground", lambda descriptor: True)
    user, process = pty.openpty()
    yield user, process
    os.close(user)
    os.close(process)


def test_each_key_arrives_without_a_return(terminal: tuple[int, int]) -> None:
    user, process = terminal
    pressed: queue.Queue[str] = queue.Queue()
    with KeyReader(pressed.put, descriptor=process) as keys:
        assert keys.active
        for key in " sq":
            os.write(user, key.encode())
            assert pressed.get(timeout=30) == key


def test_terminal_is_put_back(terminal: tuple[int, int]) -> None:
    _, process = terminal
    before = termios.tcgetattr(process)
    with KeyReader(lambda key: None, descriptor=process) as keys:
        assert termios.tcgetattr(process) != before
        keys.restore()
        assert termios.tcgetattr(process) == before
    assert termios.tcgetattr(process) == before
    assert not keys.active


def test_closed_terminal_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_foreground", lambda descriptor: True)
    user, process = pty.openpty()
    with KeyReader(lambda key: None, descriptor=process) as keys:
        os.close(user)
        assert keys._thread is not None
        keys._thread.join(timeout=30)
        assert not keys._thread.is_alive()
    os.close(process)


def test_background_process_reads_nothing(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_foreground", lambda descriptor: False)
    with KeyReader(lambda key: None, descriptor=terminal[1]) as keys:
        assert not keys.active


def test_pipe_is_no_terminal() -> None:
    ends = os.pipe()
    with KeyReader(lambda key: None, descriptor=ends[0]) as keys:
        assert not keys.active
    for end in ends:
        os.close(end)
