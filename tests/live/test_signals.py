"""Signals: one asks, the second ends; handlers are put back."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys

import pytest

from midstep.session.signals import GracefulStop

ENDS_AT_ONCE = """
import os, signal, threading
from midstep.session.signals import GracefulStop
with GracefulStop(lambda name: None, lambda: os.write(1, b"put back")):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_first_signal_requests_a_stop_from_another_thread(number: signal.Signals) -> None:
    asked: queue.Queue[str] = queue.Queue()
    with GracefulStop(asked.put, lambda: None) as graceful:
        assert not graceful.is_received
        os.kill(os.getpid(), number)
        assert asked.get(timeout=30) == number.name
        assert graceful.is_received


def test_second_signal_puts_the_terminal_back_and_ends_the_process() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", ENDS_AT_ONCE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 128 + signal.SIGTERM
    assert answer.stdout == "put back"


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with GracefulStop(lambda name: None, lambda: None):
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_handler_of_the_user_is_left_alone() -> None:
    def own(number: int, frame: object) -> None:
        """What the user installed."""

    previous = signal.signal(signal.SIGTERM, own)
    try:
        with GracefulStop(lambda name: None, lambda: None):
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, previous)
