"""A run without a page says once where it is paused, and how to continue."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from midstep.control import DebugController
from midstep.live import attach
from tests.live.trainer import Plain

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def resume_each_pause(controller: DebugController, ended: threading.Event) -> None:
    """Resume the run whenever it is paused, as a thread of the script could."""
    while not ended.is_set():
        if controller.is_parked:
            controller.resume()
        time.sleep(0.002)


def notices_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("midstep: ") for line in lines if "paused" in line]


def train_with_pauses(save_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that pauses before its first step and at two later ones."""
    monkeypatch.chdir(save_dir)
    controller, ended, plain = DebugController(), threading.Event(), Plain()
    controller.add_breakpoint("expression", expression="step == 2 or step == 3")
    resumer = threading.Thread(target=resume_each_pause, args=(controller, ended))
    with attach(*plain.parts, controller=controller, start_paused=True, run_name="a") as run:
        resumer.start()
        try:
            plain.train(run)
        finally:
            ended.set()
            resumer.join()


def test_only_the_first_pause_is_announced(tmp_path, monkeypatch, capsys):
    train_with_pauses(tmp_path, monkeypatch)
    assert notices_of(capsys) == [
        "paused before the first step; continue from another terminal with: midstep ctl resume"
    ]


def test_a_run_that_no_terminal_can_reach_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MIDSTEP_MODE", "record")
    train_with_pauses(tmp_path, monkeypatch)
    assert notices_of(capsys) == [
        "paused before the first step; no other terminal can reach this run with "
        "MIDSTEP_MODE=record; Ctrl-C ends it"
    ]
