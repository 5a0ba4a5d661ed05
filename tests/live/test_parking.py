"""An error at a terminal: told first, then held to be looked at, and let go on request."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.facts import end_state

SCRIPT = Path(__file__).with_name("failing.py")
ROOT = SCRIPT.parents[2]
LIMIT_S = 180.0


class Failing:
    """The process at its terminal, and what it has printed on standard error."""

    def __init__(self, process: subprocess.Popen[str], terminal: int) -> None:
        self.process, self._terminal = process, terminal
        self.said: list[str] = []

    def read_until(self, start: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))
            if line.startswith(start):
                return self.said[-1]
        pytest.fail(f"no line {start!r} in {self.said}")

    def press_ctrl_c(self) -> None:
        os.write(self._terminal, b"\x03")

    def finish(self) -> list[str]:
        """The lines it says from here on."""
        _, rest = self.process.communicate(timeout=LIMIT_S)
        return rest.splitlines()


@contextmanager
def failing(*arguments: str) -> Iterator[Failing]:
    """The script with a pseudo-terminal of its own as standard input."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        stdin=its_end,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    os.close(its_end)
    try:
        yield Failing(process, terminal)
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)


def only_run(save_dir: Path) -> Path:
    (found,) = save_dir.iterdir()
    return found


def assert_only_the_users_error(lines: list[str]) -> None:
    """The end is one line of ours, then the traceback of the script as Python prints it."""
    assert lines[:2] == ["midstep: failed after 2 steps", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: the third batch is odd"
    files = [line for line in lines if line.lstrip().startswith("File ")]
    assert all(str(SCRIPT) in line for line in files), files
    assert not any("KeyboardInterrupt" in line for line in lines)


def test_the_traceback_comes_first_then_what_it_waits_for(tmp_path):
    with failing(str(tmp_path)) as live:
        page = live.read_until("midstep: page ").removeprefix("midstep: page ")
        waits = live.read_until("midstep: the run is parked")
        assert live.said[-2] == "ValueError: the third batch is odd"
        for way in (page, "`midstep ctl resume`", "`midstep ctl stop`", "Ctrl-C", "on_error="):
            assert way in waits
        client = Client(page)
        assert client.state()["state"] == "failed"
        client.resume()
        assert_only_the_users_error(live.finish())
    assert live.process.returncode == 1
    assert end_state(only_run(tmp_path)).state == "failed"


def test_the_failing_steps_batch_is_there_and_no_step_is_granted(tmp_path):
    with failing(str(tmp_path)) as live:
        page = live.read_until("midstep: page ").removeprefix("midstep: page ")
        live.read_until("midstep: the run is parked")
        client = Client(page)
        batch = client.batch()
        assert (batch["step"], batch["sample_ids"]) == (2, [4, 5])
        for move in (client.step, lambda: client.run_until(100)):
            with pytest.raises(ClientError, match="Resume or Stop ends it"):
                move()
        client.stop()
        assert_only_the_users_error(live.finish())


def test_ctrl_c_while_it_is_parked_ends_with_the_users_own_error(tmp_path):
    with failing(str(tmp_path)) as live:
        live.read_until("midstep: the run is parked")
        live.press_ctrl_c()
        assert_only_the_users_error(live.finish())
    assert live.process.returncode == 1
    end = end_state(only_run(tmp_path))
    assert (end.state, end.reason) == ("failed", "ValueError: the third batch is odd")


def test_with_on_error_raise_it_does_not_wait(tmp_path):
    with failing(str(tmp_path), "raise") as live:
        live.read_until("midstep: run ")
        assert_only_the_users_error(live.finish())
