"""A process with a session that is interrupted again and again, hung up on, or not listened to."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from midstep.facts import FactsReader, end_state
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from tests.checkers.checkpoints import assert_newest_loads
from tests.checkers.kill import assert_facts_survive, assert_nothing_left
from tests.warm import WarmProcess

SCRIPT = Path(__file__).with_name("long_session.py")
FOREVER = 10**6


def started(run_dir: Path, steps: int, *words: str) -> WarmProcess:
    """A new process that trains."""
    arguments = (str(SCRIPT), str(run_dir), str(steps), *words)
    return WarmProcess(*arguments, cwd=run_dir.parent, program="python")


def wait_until_it_trains(process: WarmProcess) -> None:
    assert process.stderr.readline() == "trains\n"


def assert_whole(run_dir: Path) -> int:
    """Facts, checkpoints and leftovers as after any end; the step that a resume goes on from."""
    assert_facts_survive(run_dir)
    CheckpointStore(run_dir).remove_leftovers()  # as the next start does
    assert_nothing_left(run_dir)
    return assert_newest_loads(run_dir, [])


def test_ctrl_c_three_times_ends_it_and_the_same_script_goes_on(tmp_path):
    run_dir = tmp_path / "run"
    process = started(run_dir, FOREVER)
    wait_until_it_trains(process)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.01)  # so that it is heard before the next one
        except subprocess.TimeoutExpired:
            continue
    _, errors = process.communicate(timeout=180)
    assert process.returncode == -signal.SIGINT, errors
    assert "Fatal Python error" not in errors
    assert end_state(run_dir).state in ("stopped", "killed")
    step = max(0, assert_whole(run_dir))
    again = started(run_dir, step + 1)
    _, errors = again.communicate(timeout=180)
    assert again.returncode == 0, errors
    assert (end_state(run_dir).state, assert_whole(run_dir)) == ("finished", step + 1)


def test_a_terminal_that_hangs_up_stops_it_with_a_checkpoint_and_0(tmp_path):
    run_dir = tmp_path / "run"
    process = started(run_dir, FOREVER)
    wait_until_it_trains(process)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    last = FactsReader(run_dir).events()[-1]
    assert (last["moment"], last["reason"]) == ("on_train_end", "SIGHUP")
    assert assert_whole(run_dir) == last["step"]


def test_a_closed_stdout_is_no_concern_of_a_session_that_says_nothing(tmp_path):
    run_dir = tmp_path / "run"
    process = started(run_dir, 5, "deaf")
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert (end_state(run_dir).state, assert_whole(run_dir)) == ("finished", 5)


def test_a_print_of_the_users_into_a_closed_pipe_is_an_error_of_theirs_on_record(tmp_path):
    run_dir = tmp_path / "run"
    process = started(run_dir, FOREVER, "say")
    process.stdout.close()
    _, errors = process.communicate(timeout=180)
    assert process.returncode != 0
    assert "BrokenPipeError" in errors
    assert end_state(run_dir).state == "failed"
    assert_facts_survive(run_dir)
