"""A signal to a real process ends its training with a complete record, in every state."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midstep.control import DebugController
from midstep.facts import FactsReader, end_state
from midstep.live import attach, serve
from tests.live.trainer import Plain
from tests.warm import WarmProcess

SCRIPT = Path(__file__).with_name("signalled.py")
LIMIT_S = 180.0


@contextmanager
def ready(way: str, state: str, save_dir: Path) -> Iterator[WarmProcess]:
    """The process, once it has said that it is in its state."""
    arguments = (str(SCRIPT), way, state, str(save_dir))
    process = WarmProcess(*arguments, cwd=save_dir, program="python", new_session=True)
    try:
        assert process.stdout.readline() == "ready\n", process.communicate(LIMIT_S)[1]
        yield process
    finally:
        process.kill()
        process.wait()


def unexpected(errors: str) -> list[str]:
    """What is said besides where the run is, where it paused and how it ended."""
    said = ("midstep: run ", "midstep: paused before ", "midstep: stopped after ")
    return [line for line in errors.splitlines() if not line.startswith(said)]


def only_run(save_dir: Path) -> Path:
    (run_dir,) = save_dir.iterdir()
    return run_dir


@pytest.mark.parametrize(
    ("way", "state", "number"),
    [
        ("attach", "running", signal.SIGTERM),
        ("attach", "paused", signal.SIGTERM),
        ("attach", "scan", signal.SIGTERM),
        ("attach", "long", signal.SIGTERM),
        ("attach", "paused", signal.SIGHUP),
        ("serve", "running", signal.SIGTERM),
        ("serve", "paused", signal.SIGTERM),
        ("serve", "scan", signal.SIGHUP),
        ("serve run", "paused", signal.SIGTERM),
    ],
)
def test_a_signal_stops_at_the_boundary_and_exits_0(
    tmp_path: Path, way: str, state: str, number: signal.Signals
) -> None:
    with ready(way, state, tmp_path) as process:
        process.send_signal(number)
        told, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, told, unexpected(errors)) == (0, "", [])
    run = only_run(tmp_path)
    end = end_state(run)
    assert (end.state, end.reason) == ("stopped", number.name)
    reader = FactsReader(run)
    last = reader.events()[-1]
    assert (last["moment"], reader.problems) == ("on_train_end", [])
    stops = [event for event in reader.events() if event.get("command") == "stop"]
    assert [(stop["status"], stop["who"]) for stop in stops] == [("done", "system")]


def test_a_signal_to_the_whole_group_is_a_stop_though_it_ends_the_loaders_workers(
    tmp_path: Path,
) -> None:
    with ready("attach", "workers", tmp_path) as process:
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, unexpected(errors)) == (0, [])
    assert end_state(only_run(tmp_path)).state == "stopped"


def test_a_second_signal_ends_a_loop_that_never_reaches_its_boundary(tmp_path: Path) -> None:
    with ready("attach", "stuck", tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=LIMIT_S)
    # Two different signals that wait together are handled in the order of their numbers.
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert end_state(only_run(tmp_path)).state == "killed"


def test_ctrl_c_stays_an_interrupt_and_is_recorded_as_a_stop(tmp_path: Path) -> None:
    with ready("attach", "paused", tmp_path) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    end = end_state(only_run(tmp_path))
    assert (end.state, end.reason) == ("stopped", "KeyboardInterrupt")


@pytest.mark.parametrize("way", ["attach", "serve"])
def test_handlers_are_there_inside_the_block_only(tmp_path: Path, way: str) -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    block = (
        attach(*Plain().parts, save_dir=tmp_path)
        if way == "attach"
        else serve(DebugController(), port=0, save_dir=tmp_path)
    )
    with block:
        inside = [signal.getsignal(number) for number in numbers]
    assert [a is b for a, b in zip(inside, before, strict=True)] == [False, False, True]
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_handler_of_the_users_own_is_called_and_stops_nothing(tmp_path: Path) -> None:
    came: queue.Queue[int] = queue.Queue()
    previous = signal.signal(signal.SIGTERM, lambda number, _frame: came.put(number))
    try:
        plain = Plain()
        with attach(*plain.parts, save_dir=tmp_path) as run:
            os.kill(os.getpid(), signal.SIGTERM)
            assert came.get(timeout=30) == signal.SIGTERM
            plain.train(run)
            directory = run.dir
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert end_state(directory).state == "finished"


def test_in_another_thread_nothing_is_handled(tmp_path: Path) -> None:
    found: list[object] = []

    def train() -> None:
        with attach(*Plain().parts, save_dir=tmp_path):
            found.append(signal.getsignal(signal.SIGTERM))

    training = threading.Thread(target=train)
    training.start()
    training.join(30)
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_a_forked_child_ends_at_its_first_signal(tmp_path: Path) -> None:
    with attach(*Plain().parts, save_dir=tmp_path):
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)  # not reached: the child has no thread that would obey
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
