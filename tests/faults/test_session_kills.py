"""A session killed at random instants, and asked to end in every state it can be in."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.control import Command
from midstep.facts import FactsReader, end_state
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from tests.checkers.checkpoints import assert_newest_loads
from tests.checkers.kill import ForkedChild, assert_facts_survive, assert_nothing_left
from tests.data.order.loaders import Case
from tests.session.sessions import Recipe

ROOT = Path(__file__).parents[2]


def kills(folder: Path, count: int, seed: int) -> None:
    """A warm parent forks sessions, kills them at random instants, and compares with one life."""
    script = Path(__file__).with_name("session_kills.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(count), str(seed)],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_thirty_random_kills_change_nothing(tmp_path):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    kills(tmp_path, 30, seed)


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_a_thousand_random_kills_change_nothing(tmp_path, record_property):
    for seed in range(500, 510):
        kills(tmp_path / str(seed), 100, seed)
    record_property("figure", "1,000 kills of a training, invariants broken: 0")


# -- SIGTERM --------------------------------------------------------------------------------------


def ended_by(
    run_dir: Path,
    prepare: Callable[[Any, Callable[[Any], None]], object],
    **settings: Any,
) -> ForkedChild:
    """Start a session, wait for its word, send SIGTERM, and give it a bounded time to end."""

    def work(acknowledge: Callable[[Any], None]) -> None:
        torch.set_num_threads(1)
        recipe = Recipe(validate=True)
        with recipe({"save_dir": run_dir.parent, "run_name": run_dir.name, **settings}) as session:
            prepare(session, acknowledge)
            try:
                session.fit(steps=10**6)
            except SystemExit as end:
                acknowledge(f"ends with {end.code}")

    child = ForkedChild(work)
    assert child.read_until(1) == 1
    os.kill(child.pid, signal.SIGTERM)
    return child


def tell_at_step_three(session: Any, acknowledge: Callable[[Any], None]) -> None:
    @session.on_step
    def note(record: Any) -> None:
        if record.step == 3:
            acknowledge("running")


def tell_when_paused(session: Any, acknowledge: Callable[[Any], None]) -> None:
    session.controller.run_until(2)
    told: list[str] = []

    def look() -> None:
        if session.controller.is_parked and not told:
            told.append("paused")
            acknowledge("paused")

    session.controller.sinks.subscribe(look)


def tell_in_a_checkpoint(session: Any, acknowledge: Callable[[Any], None]) -> None:
    store = session.checkpoint_writer.checkpoints
    save = store.save

    def slow(snapshot: Any, **options: Any) -> Path:
        acknowledge("writing")
        return save(snapshot, **options)

    store.save = slow


class Endless:
    """A loader without end: only giving the pass up can end the process."""

    def __init__(self, acknowledge: Callable[[Any], None]) -> None:
        self._acknowledge, self._told = acknowledge, False

    def __iter__(self) -> Any:
        if not self._told:
            self._told = True
            self._acknowledge("reading")
        while True:
            yield [[0.0] * 5, [1.0] * 5]


def tell_in_a_validation(session: Any, acknowledge: Callable[[Any], None]) -> None:
    session.trainer.parts.val_loader = Endless(acknowledge)


def tell_in_a_test(session: Any, acknowledge: Callable[[Any], None]) -> None:
    session.trainer.parts.test_loader = Endless(acknowledge)

    @session.on_step
    def ask(record: Any) -> None:
        if record.step == 2:
            session.controller.submit(Command(name="test_now"))


STATES = {
    "running": tell_at_step_three,
    "paused": tell_when_paused,
    "in a checkpoint": tell_in_a_checkpoint,
    "in a validation": tell_in_a_validation,
    "in a test": tell_in_a_test,
}


@pytest.mark.parametrize("state", STATES)
def test_sigterm_leaves_a_checkpoint_and_exits_with_0(state, tmp_path):
    run_dir = tmp_path / "run"
    child = ended_by(run_dir, STATES[state], checkpoint_every_steps=1)
    assert child.wait(timeout_s=20.0)[-1] == "ends with 0"
    assert child.status == 0
    ended = end_state(run_dir)
    assert ended.state == "stopped"
    # The evidence of a stop may follow the end record.
    (end,) = (e for e in FactsReader(run_dir).events() if e["moment"] == "on_train_end")
    assert end["reason"] == "SIGTERM"
    assert assert_newest_loads(run_dir, []) == end["step"]
    assert_facts_survive(run_dir)
    assert_nothing_left(run_dir)


def test_sigterm_to_the_whole_group_with_its_workers_ends_with_0_too(tmp_path):
    """A batch system signals workers as well; they may die before the boundary is reached."""
    run_dir = tmp_path / "run"

    def work(acknowledge: Callable[[Any], None]) -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        recipe = Recipe(case=Case(workers=2))
        given = {"save_dir": tmp_path, "run_name": "run", "checkpoint_every_steps": 1}
        with recipe(given) as session:
            session.on_step(lambda record: acknowledge(record.step))
            try:
                session.fit(steps=10**6)
            except SystemExit as end:
                acknowledge(f"ends with {end.code}")

    child = ForkedChild(work)
    child.read_until(3)
    os.killpg(child.pid, signal.SIGTERM)
    told = child.wait(timeout_s=30.0)
    assert (told[-1], child.status) == ("ends with 0", 0), told[-3:]
    assert end_state(run_dir).state == "stopped"
    assert assert_newest_loads(run_dir, []) >= 2


@pytest.mark.parametrize(("how", "heard"), [(signal.SIGTERM, None), (signal.SIGKILL, "Killed")])
def test_a_worker_that_ends_of_it_later_raises_nothing_and_any_other_death_does(
    how, heard, tmp_path
):
    """Torch tells of a dead worker wherever the main thread is by then."""

    def work(acknowledge: Callable[[Any], None]) -> None:
        torch.set_num_threads(1)
        recipe = Recipe(case=Case(workers=2))
        with recipe({"save_dir": tmp_path, "run_name": "run"}) as session:
            session.on_step(
                lambda record: record.step == 1 and os.kill(os.getpid(), signal.SIGTERM)
            )
            with pytest.raises(SystemExit):
                session.fit(steps=10**6)
            worker = multiprocessing.active_children()[0]
            try:
                # From elsewhere: a signal of its parent's a worker takes for a plain end.
                subprocess.run(["kill", f"-{how.value}", str(worker.pid)], check=True)
                os.waitid(os.P_PID, int(worker.pid), os.WEXITED | os.WNOWAIT)
                time.sleep(0.5)  # the handler runs in between, at the latest
                acknowledge(None)
            except RuntimeError as error:
                acknowledge(str(error))

    child = ForkedChild(work)
    (told,) = child.wait(timeout_s=60.0)
    assert child.status == 0
    assert told is None if heard is None else heard in told


def test_a_second_sigterm_exits_at_once_and_the_checkpoint_before_loads(tmp_path):
    run_dir = tmp_path / "run"

    def hang_in_the_step(session: Any, acknowledge: Callable[[Any], None]) -> None:
        @session.on_step
        def note(record: Any) -> None:
            if record.step == 5:
                session.checkpoint_writer.wait()
                acknowledge("hanging")
                # By looking, not by pause(): a signal that comes right before that wakes nobody.
                while not session.controller.boundary.is_stopping:
                    time.sleep(0.01)
                acknowledge("heard")  # two that come at once would be one
                while True:
                    time.sleep(0.01)

    child = ended_by(run_dir, hang_in_the_step, checkpoint_every_steps=1)
    assert child.read_until(2) == 2
    os.kill(child.pid, signal.SIGTERM)
    child.wait(timeout_s=20.0)
    assert child.status == 128 + signal.SIGTERM
    assert assert_newest_loads(run_dir, []) == 4
    assert CheckpointStore(run_dir).remove_leftovers() == []
