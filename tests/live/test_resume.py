"""An attached loop that is killed or stopped goes on in the same script with the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal

import pytest
import torch
from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.live import attach
from midstep.session.checkpoint.checkpoint_store import CheckpointError
from tests.checkers.kill import ForkedChild
from tests.live.resumable import EPOCHS, STEPS, Resumable
from tests.live.test_attach import series
from tests.live.trainer import Plain

LOADERS = {
    "no workers": {},
    "2 workers": {"num_workers": 2},
    "2 persistent": {"num_workers": 2, "persistent_workers": True},
}
SEEDED = {
    f"epoch_reseed, {name}": {**how, "policy": "epoch_reseed"} for name, how in LOADERS.items()
}


def whole(tmp_path, **how):
    """What an uninterrupted run gives: ids and losses by step, and the state in the end."""
    training = Resumable(tmp_path / "whole", **how)
    with training.attach() as run:
        training.train(run)
    training.end_workers()
    return training.seen, training.digest()


def interrupted(save_dir, **how):
    """One process of the script; tells every step, and the state in the end."""

    def work(told) -> None:
        training = Resumable(save_dir, **how)
        with training.attach(checkpoint_every_steps=1) as run:
            training.train(run, told)
        told(training.digest())

    return work


HOW = {**LOADERS, **SEEDED}
SOAK = {name for name in HOW if "no workers" not in name}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=pytest.mark.soak if n in SOAK else (), id=n)
        for n, how in HOW.items()
    ],
)
def test_killed_again_and_again_it_gives_the_same_bits(tmp_path, how):
    expected, digest = whole(tmp_path, **how)
    assert [step for step, _, _ in expected] == list(range(1, STEPS + 1))
    draw, told = random.Random(1), []
    for _ in range(2):
        child = ForkedChild(interrupted(tmp_path / "killed", **how))
        child.read_until(draw.randrange(2, 9))
        told += child.kill()
    last = ForkedChild(interrupted(tmp_path / "killed", **how))
    told += last.wait()
    assert last.status == 0, told
    assert told.pop() == digest
    known = {step: (ids, loss) for step, ids, loss in expected}
    assert all(known[step] == (ids, loss) for step, ids, loss in told)
    assert {step for step, _, _ in told} == known.keys()


STOPS = [(at, {}) for at in (1, 6, 9, STEPS)] + [(9, LOADERS["2 persistent"])]


@pytest.mark.parametrize(("at", "how"), STOPS, ids=str)
def test_stopped_at_any_step_it_goes_on_from_there(tmp_path, at, how):
    expected, digest = whole(tmp_path, **how)
    first = Resumable(tmp_path, **how)
    with first.attach() as run:
        first.train(run, lambda told: run.controller.stop() if told[0] == at else None)
    second = Resumable(tmp_path, **how)
    with second.attach(resume="must") as run:
        assert run.step == at
        second.train(run)
    assert first.seen + second.seen == expected
    assert second.digest() == digest
    kinds = [e.get("kind") for e in FactsReader(run.dir).events()]
    assert kinds.count("resume") == 1
    assert series(run.dir, "loss")[0] == list(range(1, STEPS + 1))
    first.end_workers()
    second.end_workers()


def test_sigterm_leaves_a_checkpoint_of_its_boundary(tmp_path):
    def work(told) -> None:
        training = Resumable(tmp_path)
        with training.attach() as run:
            ask = {4: lambda: os.kill(os.getpid(), signal.SIGTERM)}
            training.train(run, lambda seen: ask.get(seen[0], int)(), epochs=10_000)

    child = ForkedChild(work)
    assert child.wait() == [{"raised": "SystemExit: 0"}]
    events = FactsReader(tmp_path / "run").events()
    assert (events[-1]["status"], events[-1]["reason"]) == ("stopped", "SIGTERM")
    saved = [e for e in events if e.get("kind") == "checkpoint"][-1]
    assert (saved["cause"], saved["step"]) == ("stop", events[-1]["step"])
    again = Resumable(tmp_path)
    with again.attach(resume="must") as run:
        assert run.step == events[-1]["step"]


def test_a_finished_run_is_resumed_to_more_epochs(tmp_path):
    expected, digest = whole(tmp_path)
    first = Resumable(tmp_path)
    with first.attach() as run:
        first.train(run, epochs=2)
    second = Resumable(tmp_path)
    with second.attach() as run:
        second.train(run)
    assert first.seen + second.seen == expected
    assert second.digest() == digest
    third = Resumable(tmp_path)
    with third.attach() as run:
        third.train(run)
    assert third.seen == []


def test_what_stands_at_the_head_of_an_epoch_is_not_done_twice(tmp_path):
    def train(training, run, stop_at=None):
        for epoch in run.epochs(EPOCHS):
            torch.rand(2)
            next(iter(training.loader))  # a look at the first batch, which draws numbers, too
            if epoch:
                training.scheduler.step()
            for x, ids in training.loader:
                loss = training.model(x).square().mean()
                loss.backward()
                training.optimizer.step()
                training.optimizer.zero_grad()
                training.seen.append((run.step + 1, ids.tolist(), loss.item().hex()))
                if run.step + 1 == stop_at:
                    run.controller.stop()

    bare = Resumable(tmp_path / "bare")
    with bare.attach() as run:
        train(bare, run)
    digest = bare.digest()
    first = Resumable(tmp_path)
    with first.attach() as run:
        train(first, run, stop_at=9)
    second = Resumable(tmp_path)
    with second.attach() as run:
        train(second, run)
    assert first.seen + second.seen == bare.seen
    assert second.digest() == digest


# -- refusals -------------------------------------------------------------------------------------


def test_resume_needs_a_name(tmp_path):
    with pytest.raises(ConfigError, match="needs a run_name"):
        attach(*Plain().parts, save_dir=tmp_path, resume="auto")


def test_must_without_a_checkpoint_is_refused_and_nothing_is_made(tmp_path):
    with (
        pytest.raises(ConfigError, match="found no checkpoint"),
        Resumable(tmp_path).attach(resume="must"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_never_refuses_a_run_that_is_there(tmp_path):
    training = Resumable(tmp_path)
    with training.attach() as run:
        training.train(run, epochs=1)
    with (
        pytest.raises(ConfigError, match="already holds a run"),
        Resumable(tmp_path).attach(resume="never"),
    ):
        pass


def test_another_model_or_batch_size_is_refused_with_the_field(tmp_path):
    training = Resumable(tmp_path)
    with training.attach() as run:
        training.train(run, epochs=1)
    other = Resumable(tmp_path)
    other.loader = DataLoader(other.loader.dataset, batch_size=5, shuffle=True)
    with (
        pytest.raises(
            ConfigError, match=r"batch_size was 4, is 5; .*allow_changed=\('batch_size',\)"
        ),
        other.attach(),
    ):
        pass


@pytest.mark.parametrize(("config", "is_compared"), [({"width": 1}, True), ({"width": 2}, False)])
def test_steps_are_not_compared_with_those_of_another_config(tmp_path, config, is_compared):
    def end_at_five(seen):
        if seen[0] == 5:
            raise RuntimeError

    training = Resumable(tmp_path)
    first = training.attach(checkpoint_every_steps=3, config={"width": 1, "note": float("nan")})
    with pytest.raises(RuntimeError), first as run:
        training.train(run, end_at_five)
    training = Resumable(tmp_path)
    with training.attach(config={**config, "note": float("nan")}) as run:
        training.train(run)
    (fact,) = [e for e in FactsReader(run.dir).events() if e.get("kind") == "repeated_steps"]
    assert (fact["verdict"] == "exact") is is_compared
    assert ("config changed: width was 1, is 2" in fact["text"]) is not is_compared


def test_without_run_epochs_a_resumed_loop_says_what_it_needs(tmp_path):
    training = Resumable(tmp_path)
    with training.attach() as run:
        training.train(run, epochs=1)
    again = Resumable(tmp_path)
    with pytest.raises(ConfigError, match=r"for epoch in run\.epochs"), again.attach():
        for _ in again.loader:
            pass


class Bare:
    def __iter__(self):
        return iter([torch.ones(4, 2)])


def test_a_loader_without_an_order_cannot_be_resumed_and_says_why(tmp_path):
    plain = Plain()
    with (
        pytest.raises(ConfigError, match="order of a Bare is unknown"),
        attach(
            plain.model, plain.optimizer, Bare(), save_dir=tmp_path, run_name="r", resume="auto"
        ),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="order of a Bare is unknown"),
        attach(
            plain.model,
            plain.optimizer,
            Bare(),
            save_dir=tmp_path,
            data_order_policy="fixed_order",
            seed=1,
        ),
    ):
        pass


@pytest.mark.parametrize(
    ("zeroes", "every", "is_reported"),
    [("after", 4, True), ("after, in place", 4, True), ("before", 4, False), ("after", 3, False)],
)
def test_gradients_that_are_left_at_the_end_of_an_epoch_are_reported(
    tmp_path, zeroes, every, is_reported
):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in run.epochs(3):
            for i, (x, _y) in enumerate(plain.loader):
                if zeroes == "before" and i % every == 0:
                    plain.optimizer.zero_grad()
                plain.model(x).square().mean().backward()
                if (i + 1) % every == 0:
                    plain.optimizer.step()
                    if zeroes != "before":
                        plain.optimizer.zero_grad(set_to_none=zeroes == "after")
    assert len(plain.loader) == 6
    events = FactsReader(run.dir).events()
    named = [e["reason"] for e in events if e.get("kind") == "inexact"]
    assert (
        any("ended with 2 batches that no step followed" in each for each in named) is is_reported
    )
    assert len(named) <= 1


def test_a_pass_inside_a_pass_is_reported_once(tmp_path, capsys):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for x, _y in plain.loader:
            plain.step(x)
            next(iter(plain.loader))
    told = [line for line in capsys.readouterr().err.splitlines() if "not be exact" in line]
    assert len(told) == 1
    assert "after another one has begun" in told[0]
    assert run.step == 6


def test_workers_that_draw_are_reported_once_and_as_a_fact(tmp_path, capsys):
    training = Resumable(tmp_path, num_workers=2)
    training.loader.dataset.draws = True
    with training.attach() as run:
        training.train(run, epochs=2)
    told = [line for line in capsys.readouterr().err.splitlines() if "not be exact" in line]
    assert len(told) == 1
    assert "workers draw random numbers" in told[0]
    facts = [e for e in FactsReader(run.dir).events() if e.get("kind") == "inexact"]
    assert len(facts) == 1


def average_of_a_run(save_dir, *, stop_at=None, **how):
    """Weights averaged by the script itself, as `extra_state` of a run."""
    plain = Plain()
    average = torch.optim.swa_utils.AveragedModel(plain.model)
    with attach(
        *plain.parts, save_dir=save_dir, run_name="run", extra_state={"average": average}, **how
    ) as run:
        for _ in run.epochs(2):
            for x, _y in plain.loader:
                run.log(loss=plain.step(x))
                average.update_parameters(plain.model)
                if run.step + 1 == stop_at:
                    run.controller.stop()
    return average.state_dict()


def test_extra_state_is_resumed_with_the_rest(tmp_path):
    expected = average_of_a_run(tmp_path / "whole")
    average_of_a_run(tmp_path / "cut", stop_at=5)
    resumed = average_of_a_run(tmp_path / "cut", resume="must")
    assert resumed.keys() == expected.keys()
    assert int(resumed["n_averaged"]) == 12
    assert all(torch.equal(resumed[name], expected[name]) for name in expected)
    plain = Plain()
    with (
        pytest.raises(ConfigError, match="extra_state lacks 'average'"),
        attach(*plain.parts, save_dir=tmp_path / "cut", run_name="run", resume="must"),
    ):
        pass


# -- said, not silent -----------------------------------------------------------------------------


def test_a_run_whose_checkpoints_are_gone_says_that_it_begins_again(tmp_path, capsys):
    training = Resumable(tmp_path)
    with training.attach() as run:
        training.train(run, epochs=1)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    again = Resumable(tmp_path)
    capsys.readouterr()
    with again.attach() as run:
        assert run.step == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "begins again" in line]
    assert len(told) == 1
    assert "wrote 1 checkpoints, but none is in" in told[0]
    (fact,) = [e for e in FactsReader(run.dir).events() if e.get("kind") == "began_again"]
    assert fact["reason"] in told[0]


def test_a_checkpoint_of_another_run_is_refused_by_its_run_id(tmp_path):
    for name in ("mine", "other"):
        training = Resumable(tmp_path)
        with training.attach(run_name=name) as run:
            training.train(run, epochs=1 if name == "mine" else 2)
    other = FactsReader(tmp_path / "other").header()["run_id"]
    shutil.copytree(tmp_path / "other/checkpoints/12", tmp_path / "mine/checkpoints/12")
    again = Resumable(tmp_path)
    with again.attach(run_name="mine") as run:
        assert run.step == 6
    (refused,) = [
        event
        for event in FactsReader(run.dir).events()
        if event.get("kind") == "checkpoint_refused"
    ]
    assert f"it was taken by the run {other}" in refused["reason"]
    shutil.copytree(tmp_path / "other/checkpoints", tmp_path / "new/checkpoints")
    with (
        pytest.raises(CheckpointError, match="copy its whole directory"),
        Resumable(tmp_path).attach(run_name="new"),
    ):
        pass
