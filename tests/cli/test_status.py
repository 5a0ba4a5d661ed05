"""The status line: what it says, and when a line stays."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest

from midstep.cli.output.screen import Screen
from midstep.cli.output.status_line import Status, format_state
from midstep.cli.output.text_format import format_duration

RUNNING: dict[str, Any] = {
    "state": "running",
    "parked": False,
    "step": 1234,
    "total_steps": 10_000,
    "loss": 0.012345678,
    "steps_per_s": 400.0,
}


class Fake:
    """A controller's side of the status line, moved by hand."""

    def __init__(self) -> None:
        self.state = {**RUNNING}
        self.asked = threading.Semaphore(0)
        self._callbacks: list[Callable[[], None]] = []

    def read(self) -> dict[str, Any]:
        state = dict(self.state)
        self.asked.release()
        return state

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def become(self, **changes: Any) -> None:
        """Change the state, and wait until it has been looked at."""
        self.state = {**self.state, **changes}
        while self.asked.acquire(blocking=False):
            pass
        for callback in self._callbacks:
            callback()
        assert self.asked.acquire(timeout=30)

    def show(self, stream: io.StringIO) -> Status:
        return Status(self.read, self.subscribe, Screen(stream), keys=False)


def test_running_state_has_rate_and_time_left() -> None:
    words = format_state(RUNNING)
    assert words == "running · step 1,234 of 10,000 · loss 0.012346 · 400 steps/s · 0:00:22 left"


def test_unknown_total_and_rate_are_left_out() -> None:
    assert format_state({"state": "starting", "parked": False, "step": 0}) == "starting · step 0"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "PAUSED at step 7"),
        (
            {"breakpoint": {"condition": "loss > 2", "value": 2.5}},
            "PAUSED at step 7: loss > 2 (was 2.5)",
        ),
        ({"breakpoint": {"condition": "step 7", "value": None}}, "PAUSED at step 7: step 7"),
        (
            {"breakpoint": {"condition": "dead > 0.5", "value": 0.75, "layer": "act"}},
            "PAUSED at step 7: dead > 0.5 (was 0.75) in act",
        ),
        ({"reason": "No space left."}, "PAUSED at step 7: No space left."),
    ],
)
def test_parked_state_says_where_and_why(state: dict[str, Any], words: str) -> None:
    assert format_state({"state": "paused", "parked": True, "step": 7, **state}) == words


def test_paused_state_has_its_numbers_with_commas() -> None:
    paused = {
        **RUNNING,
        "state": "paused",
        "parked": True,
        "epoch": 3,
        "total_epochs": 9,
        "lr": 1e-3,
    }
    assert format_state(paused) == "PAUSED at step 1,234 of 10,000 · loss 0.012346"
    assert format_state({**paused, "reason": "No space left."}, full=True) == (
        "PAUSED at step 1,234 of 10,000 · loss 0.012346 · epoch 4 of 9 · lr 0.001 · "
        "400 steps/s before the pause: No space left."
    )


def test_slow_runs_have_a_speed_above_zero() -> None:
    assert "0.25 steps/s" in format_state({**RUNNING, "steps_per_s": 0.25})


def test_loss_that_is_no_number_is_left_out() -> None:
    assert "loss" not in format_state({**RUNNING, "loss": "NaN"})


def test_durations() -> None:
    assert [format_duration(s) for s in (0, 59.6, 3725, -3)] == [
        "0:00:00",
        "0:01:00",
        "1:02:05",
        "0:00:00",
    ]


def test_each_stop_leaves_one_line_without_a_terminal() -> None:
    fake, stream = Fake(), io.StringIO()
    with fake.show(stream):
        fake.become(state="paused", parked=True, step=5)
        fake.become(state="paused", parked=True, step=5)  # told once
        fake.become(state="stepping", parked=False)
        fake.become(state="paused", parked=True, step=6)
    assert [line.split(" of ")[0] for line in stream.getvalue().splitlines()] == [
        "PAUSED at step 5",
        "PAUSED at step 6",
    ]


def test_on_a_terminal_one_line_is_replaced_and_none_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("FORCE_COLOR", "1")
    fake, stream = Fake(), io.StringIO()
    with fake.show(stream):
        for step in (5, 6):
            fake.become(state="paused", parked=True, step=step)
            fake.become()  # so it has been drawn
    drawn = stream.getvalue()
    assert "PAUSED at step 5" in drawn
    assert "PAUSED at step 6" in drawn
    assert drawn.count("\n") == 1  # the last one, and that line is erased


def test_closed_terminal_makes_it_quiet_and_nothing_else() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    fake = Fake()
    with fake.show(Closed()):
        fake.become(state="paused", parked=True)
        fake.become(state="running", parked=False)


def test_nothing_listens_afterwards() -> None:
    fake = Fake()
    with fake.show(io.StringIO()):
        pass
    assert fake._callbacks == []
