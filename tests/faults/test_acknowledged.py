"""What a command acknowledged survives a kill, also one that comes before its checkpoint."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.control import Command
from midstep.facts import FactsReader
from midstep.live import attach
from midstep.session.checkpoint.checkpoint_folders import CheckpointFolders
from midstep.session.checkpoint.checkpoint_store import CheckpointError
from midstep.session.checkpoint.fingerprint import hash_value
from tests.checkers.kill import Acknowledge, ForkedChild, assert_facts_survive, run_forked, warm_up
from tests.live.resumable import Resumable
from tests.live.trainer import Plain
from tests.session.sessions import Recipe

STEPS, CHANGE_AT, PAUSE_AT, BACK_TO = 9, 5, 6, 3


def facts(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in FactsReader(run_dir).events() if event.get("kind") == kind]


def block_the_disk(store: Any, since_step: int) -> None:
    """No checkpoint of `since_step` or later is ever written: the disk is too slow."""
    save = store.save

    def stuck(snapshot: Any, **options: Any) -> Path:
        if snapshot.step >= since_step and snapshot.timeline == 0:
            threading.Event().wait()
        return save(snapshot, **options)

    store.save = stuck


class Life:
    """One process of a training; `in_session` decides the driver."""

    def __init__(self, folder: Path, *, in_session: bool, every: int | None = 2) -> None:
        self.folder, self.in_session, self.every = folder, in_session, every

    def __call__(
        self,
        acknowledge: Acknowledge,
        prepare: Callable[[Any, Any], object] = lambda _controller, _engine: None,
    ) -> None:
        torch.set_num_threads(1)
        (self._session if self.in_session else self._attached)(acknowledge, prepare)

    def _session(self, acknowledge: Acknowledge, prepare: Callable[[Any, Any], object]) -> None:
        settings = {
            "save_dir": self.folder,
            "run_name": "run",
            "resume": "auto",
            "checkpoint_every_steps": self.every,
            "checkpoint_epochs": self.every is not None,
        }
        with Recipe()(settings) as session:
            prepare(session.controller, session.engine)
            session.fit(steps=STEPS)
            acknowledge(hash_value(session.trainer.state.take().state_tree()["model"]))

    def _attached(self, acknowledge: Acknowledge, prepare: Callable[[Any, Any], object]) -> None:
        training = Resumable(self.folder)
        with training.attach(checkpoint_every_steps=self.every) as run:
            prepare(run.controller, run._loop._engine)
            training.train(run)
        acknowledge(training.digest())


class Listener:
    """A sink that calls a function with each finished step, on the training thread."""

    def __init__(self, call: Callable[[int], object]) -> None:
        self._call = call

    def log_values(self, finished: int, _scalars: Any) -> None:
        self._call(finished)

    def event(self, *_: Any, **__: Any) -> None:
        """Events say nothing here."""


def wait_for_checkpoints(controller: Any, engine: Any, until: int) -> None:
    """Each is on disk before the next step: a busy disk would cost some of them."""
    controller.sinks.add(Listener(lambda step: engine.writer.wait() if step < until else None))


def at_step(
    controller: Any, step: int, name: str, then: Callable[[Any], object], **payload: Any
) -> None:
    """Submit a command at the boundary of a step, and give its result to `then`."""
    futures: list[Any] = []

    def submit(finished: int) -> None:
        if finished == step and not futures:
            futures.append(controller.submit(Command(name=name, payload=payload)))
            futures[0].add_done_callback(lambda done: then(done.result()))

    controller.sinks.add(Listener(submit))


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


DRIVERS = pytest.mark.parametrize("in_session", [True, False], ids=["session", "attach"])


@DRIVERS
def test_a_learning_rate_that_was_acknowledged_is_set_again_at_its_step(tmp_path, in_session):
    def change(acknowledge: Acknowledge, *, block: bool) -> Callable[[Any, Any], None]:
        def prepare(controller: Any, engine: Any) -> None:
            wait_for_checkpoints(controller, engine, CHANGE_AT)
            if block:
                block_the_disk(engine.writer.checkpoints, CHANGE_AT)
            at_step(controller, CHANGE_AT, "set_hparams", acknowledge, lr_mul=0.5)

        return prepare

    whole = Life(tmp_path / "whole", in_session=in_session)
    expected = run_forked(lambda say: whole(say, change(say, block=False)))
    killed = Life(tmp_path / "killed", in_session=in_session)
    child = ForkedChild(lambda say: killed(say, change(say, block=True)))
    assert child.read_until(1) == 1
    (answer,) = child.kill()
    assert "not_kept" not in answer
    run_dir = tmp_path / "killed" / "run"
    assert max(name.step for name in CheckpointFolders(run_dir).names()) < CHANGE_AT
    (digest,) = run_forked(killed)
    assert digest == expected[-1]
    (again,) = facts(run_dir, "hparams_reapplied")
    assert again["step"] == CHANGE_AT
    assert_facts_survive(run_dir)


@DRIVERS
def test_a_change_is_made_again_once_also_after_a_second_kill(tmp_path, in_session):
    life = Life(tmp_path, in_session=in_session)

    def first(acknowledge: Acknowledge) -> None:
        def prepare(controller: Any, engine: Any) -> None:
            block_the_disk(engine.writer.checkpoints, CHANGE_AT)
            at_step(controller, CHANGE_AT, "set_hparams", acknowledge, lr=0.001)

        life(acknowledge, prepare)

    child = ForkedChild(first)
    child.read_until(1)
    child.kill()

    def second(acknowledge: Acknowledge) -> None:
        """Killed when the change was made again and nothing of that is on disk."""

        def prepare(controller: Any, engine: Any) -> None:
            block_the_disk(engine.writer.checkpoints, CHANGE_AT)
            at_step(controller, CHANGE_AT + 1, "pause", acknowledge)

        life(acknowledge, prepare)

    child = ForkedChild(second)
    child.read_until(1)
    child.kill()
    run_forked(life)
    changes = facts(tmp_path / "run", "hparams_reapplied")
    assert [change["attempt"] for change in changes] == [2, 3]
    assert {change["step"] for change in changes} == {CHANGE_AT}
    assert {tuple(change["new"]["lr"]) for change in changes} == {(0.001,)}
    run_forked(life)  # a checkpoint with the change is on disk now
    assert len(facts(tmp_path / "run", "hparams_reapplied")) == 2


def when_paused(acknowledge: Acknowledge, name: str, **payload: Any) -> Callable[[Any, Any], None]:
    """Pause at a step, submit a command there, and stay paused."""

    def prepare(controller: Any, engine: Any) -> None:
        def submit() -> None:
            engine.writer.wait()
            future = controller.submit(Command(name=name, payload=payload))
            future.add_done_callback(lambda done: acknowledge(done.result()))

        wait_for_checkpoints(controller, engine, PAUSE_AT)
        paused = controller.submit(Command(name="run_until", payload={"step": PAUSE_AT}))
        paused.add_done_callback(lambda _done: threading.Thread(target=submit).start())

    return prepare


def go_back(acknowledge: Acknowledge) -> Callable[[Any, Any], None]:
    return when_paused(acknowledge, "back", step=BACK_TO)


@DRIVERS
def test_after_an_acknowledged_back_a_resume_never_starts_from_the_abandoned_steps(
    tmp_path, in_session
):
    life = Life(tmp_path, in_session=in_session, every=1)
    child = ForkedChild(lambda say: life(say, go_back(say)))
    child.read_until(1)
    (answer,) = child.kill()
    assert (answer["step"], "not_kept" in answer) == (BACK_TO, False)
    run_dir = tmp_path / "run"
    for name in CheckpointFolders(run_dir).names():
        if name.timeline > 0:  # as if the kill had come before it was written
            shutil.rmtree(CheckpointFolders(run_dir).path(name))
    assert max(name.step for name in CheckpointFolders(run_dir).names()) == PAUSE_AT
    run_forked(life)
    (resumed,) = facts(run_dir, "resume")
    assert (resumed["step"], resumed["timeline"]) == (BACK_TO, 1)
    refused = [fact["reason"] for fact in facts(run_dir, "checkpoint_refused")]
    assert refused
    assert all("timeline that was left" in reason for reason in refused)


@DRIVERS
def test_back_before_the_first_checkpoint_is_acknowledged_when_it_has_one(tmp_path, in_session):
    life = Life(tmp_path, in_session=in_session, every=None)
    child = ForkedChild(lambda say: life(say, go_back(say)))
    child.read_until(1)
    (answer,) = child.kill()
    assert (answer["step"], "not_kept" in answer) == (BACK_TO, False)
    newest = CheckpointFolders(tmp_path / "run").names()[0]
    assert (newest.timeline, newest.step <= BACK_TO) == (1, True)
    run_forked(life)
    (resumed,) = facts(tmp_path / "run", "resume")
    assert (resumed["step"], resumed["timeline"]) == (newest.step, 1)


def test_only_abandoned_checkpoints_are_refused_with_the_reason(tmp_path):
    life = Life(tmp_path, in_session=True, every=1)
    child = ForkedChild(lambda say: life(say, go_back(say)))
    child.read_until(1)
    child.kill()
    folders = CheckpointFolders(tmp_path / "run")
    for name in folders.names():
        if name.timeline > 0 or name.step <= BACK_TO:
            shutil.rmtree(folders.path(name))
    with (
        Recipe()({"save_dir": tmp_path, "run_name": "run", "resume": "auto"}) as session,
        pytest.raises(CheckpointError, match="timeline that was left"),
    ):
        session.fit(steps=STEPS)


def test_a_reset_is_kept(tmp_path):
    life = Life(tmp_path, in_session=True)
    child = ForkedChild(lambda say: life(say, when_paused(say, "reset_session")))
    child.read_until(1)
    (answer,) = child.kill()
    assert (answer["step"], "not_kept" in answer) == (0, False)
    (digest,) = run_forked(life)
    (resumed,) = facts(tmp_path / "run", "resume")
    assert (resumed["step"], resumed["timeline"]) == (0, 1)
    assert [digest] == run_forked(Life(tmp_path / "whole", in_session=True))


class Bare:
    """A loader without an order: such a loop cannot be resumed."""

    def __iter__(self) -> Any:
        return iter([torch.ones(4, 2)] * 3)


def test_where_no_resume_is_possible_the_answer_says_not_kept(tmp_path):
    plain, answers = Plain(), []
    with attach(plain.model, plain.optimizer, Bare(), save_dir=tmp_path) as run:
        at_step(run.controller, 1, "set_hparams", answers.append, lr=0.5)
        for x in run_loader(run):
            run.log(loss=plain.step(x))
    (answer,) = answers
    assert "no snapshots" in answer["not_kept"]


def test_a_change_whose_fact_cannot_be_synced_is_not_called_kept(tmp_path, monkeypatch):
    plain, answers = Plain(), []
    sync = os.fsync

    def fail_for_facts(descriptor: int) -> None:
        if "/facts/" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with attach(*plain.parts, save_dir=tmp_path) as run:
        monkeypatch.setattr(os, "fsync", fail_for_facts)
        at_step(run.controller, 1, "set_hparams", answers.append, lr=0.5)
        for _ in run.epochs(1):
            for x, *_ in run_loader(run):
                run.log(loss=plain.step(x))
    (answer,) = answers
    assert "Input/output error" in answer["not_kept"]


def run_loader(run: Any) -> Any:
    return run._parts.train_loader


class Secretive(torch.optim.SGD):
    """An optimizer with a value in its state that nobody can save."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight]["lock"] = threading.Lock()
        return super().step(closure)


def test_a_state_that_cannot_be_saved_is_a_fact_and_shown_in_the_state(tmp_path):
    plain = Plain()
    optimizer = Secretive(plain.model.parameters(), lr=1e-4)
    plain.optimizer = optimizer
    answers: list[Any] = []
    with attach(*plain.parts, save_dir=tmp_path, checkpoint_every_steps=2) as run:
        at_step(run.controller, 4, "set_hparams", answers.append, lr=0.5)
        plain.train(run)
        words = run.controller.get_state()["checkpoints_off"]
    assert "optimizer.state.0.lock is a _thread.lock" in words
    (fact,) = facts(run.dir, "checkpoints_off")
    assert fact["step"] == 2
    assert fact["reason"] in words
    (answer,) = answers
    assert answer["not_kept"] == words
