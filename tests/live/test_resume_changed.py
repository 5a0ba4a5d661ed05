"""A change of the script that the user accepts: `attach(allow_changed=…)`."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.live import attach
from midstep.live.loop_replay import LoopReplay
from tests.live.resumable import STEPS, Resumable

STOP = 9


def stopped(tmp_path: Any, **how: Any) -> Resumable:
    """A training that was stopped in its second epoch."""
    first = Resumable(tmp_path, **how)
    with first.attach() as run:
        first.train(run, lambda told: run.controller.stop() if told[0] == STOP else None)
    return first


def facts(tmp_path: Any, kind: str) -> list[Any]:
    return [e for e in FactsReader(tmp_path / "run").events() if e.get("kind") == kind]


def with_other_rate(training: Resumable) -> Resumable:
    training.optimizer = torch.optim.Adam(training.model.parameters(), lr=1e-3)
    training.scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, 2, gamma=0.9)
    return training


def test_an_edited_learning_rate_is_refused_by_name_and_accepted_if_it_is_meant(tmp_path):
    first = stopped(tmp_path)
    moments = [state["exp_avg"].clone() for state in first.optimizer.state.values()]
    with (
        pytest.raises(ConfigError, match=r"resume with allow_changed=\('optimizer',\)"),
        with_other_rate(Resumable(tmp_path)).attach(),
    ):
        pass
    assert not facts(tmp_path, "change_allowed")
    again = with_other_rate(Resumable(tmp_path))
    rates = []
    with again.attach(allow_changed=("optimizer",)) as run:
        assert run.step == STOP
        kept = [state["exp_avg"] for state in again.optimizer.state.values()]
        assert all(map(torch.equal, kept, moments))
        again.train(run, lambda _told: rates.append(again.optimizer.param_groups[0]["lr"]))
    assert again.seen[0][0] == STOP + 1
    assert again.seen[-1][0] == STEPS
    assert rates[0] == 1e-3
    (fact,) = facts(tmp_path, "change_allowed")
    assert fact["field"] == "optimizer"
    (compared,) = facts(tmp_path, "repeated_steps")
    assert compared["text"] == "not compared: optimizer changed"


def test_the_samples_go_on_where_they_were(tmp_path):
    whole = Resumable(tmp_path / "whole")
    with whole.attach() as run:
        whole.train(run)
    stopped(tmp_path)
    again = with_other_rate(Resumable(tmp_path))
    with again.attach(allow_changed=("optimizer",)) as run:
        again.train(run)
    ids = [seen[1] for seen in whole.seen]
    assert [seen[1] for seen in again.seen] == ids[STOP:]


def test_another_batch_size_begins_the_epoch_again(tmp_path):
    stopped(tmp_path)
    again = Resumable(tmp_path)
    again.loader = DataLoader(again.loader.dataset, batch_size=11, shuffle=True)
    with again.attach(allow_changed=("batch_size",)) as run:
        assert run.step == STOP
        again.train(run)
    # Two epochs of two steps each: the second and the third.
    assert [step for step, _, _ in again.seen] == [STOP + 1, STOP + 2, STOP + 3, STOP + 4]
    assert sorted([*again.seen[0][1], *again.seen[1][1]]) == list(range(22))


def test_a_run_whose_change_was_accepted_is_resumed_without_a_word(tmp_path):
    stopped(tmp_path)
    again = with_other_rate(Resumable(tmp_path))
    with again.attach(allow_changed=("optimizer",)) as run:
        again.train(run, lambda told: run.controller.stop() if told[0] == STOP + 2 else None)
    last = with_other_rate(Resumable(tmp_path))
    with last.attach() as run:
        assert run.step == STOP + 2
        last.train(run)
    assert last.seen[-1][0] == STEPS
    assert len(facts(tmp_path, "change_allowed")) == 1


def gan(tmp_path: Any, rate: float, **settings: Any) -> Any:
    torch.manual_seed(0)
    model = {"G": nn.Linear(2, 2), "D": nn.Linear(2, 1)}
    optimizer = {
        "G": torch.optim.Adam(model["G"].parameters(), lr=0.01),
        "D": torch.optim.Adam(model["D"].parameters(), lr=rate),
    }
    run = attach(
        model, optimizer, None, save_dir=tmp_path, run_name="run", resume="auto", **settings
    )
    return model, optimizer, run


def test_a_change_of_the_second_optimizer_keeps_the_moments_of_both(tmp_path):
    for count, rate, settings in ((4, 0.01, {}), (6, 0.5, {"allow_changed": ("optimizer",)})):
        model, optimizer, run = gan(tmp_path, rate, **settings)
        with run:
            for _ in run.steps(count):
                loss = model["D"](model["G"](torch.ones(1, 2))).square().mean()
                loss.backward()
                for each in optimizer.values():
                    each.step()
                    each.zero_grad()
                run.log(loss=loss)
    for each in optimizer.values():
        assert [float(state["step"]) for state in each.state.values()] == [6, 6]
    assert optimizer["D"].param_groups[0]["lr"] == 0.5
    (fact,) = facts(tmp_path, "change_allowed")
    assert fact["field"] == "optimizer.D"


def drawn_in_loop(tmp_path: Any, count: int, rate: float, **settings: Any) -> list[float]:
    """What each step draws from a generator that the script makes right before its loop."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    drawn: list[float] = []
    with attach(
        model, optimizer, None, save_dir=tmp_path, run_name="run", resume="auto", **settings
    ) as run:
        rng = random.Random(7)
        for _ in run.steps(count):
            drawn.append(rng.random())
            loss = (drawn[-1] * model(torch.ones(1, 2))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
    return drawn


def test_a_generator_of_the_loop_continues_although_the_optimizer_changed(tmp_path):
    rng = random.Random(7)
    expected = [rng.random() for _ in range(6)]
    assert drawn_in_loop(tmp_path, 4, 0.1) == expected[:4]
    assert drawn_in_loop(tmp_path, 6, 0.2, allow_changed=("optimizer",)) == expected[4:]


def test_the_sums_of_an_epoch_that_begins_again_have_no_earlier_steps(tmp_path):
    stopped(tmp_path)
    again = Resumable(tmp_path)
    again.loader = DataLoader(again.loader.dataset, batch_size=11, shuffle=True)
    with again.attach(allow_changed=("batch_size",)) as run:
        again.train(run)
    losses = [float.fromhex(loss) for _, _, loss in again.seen]
    ends = [e for e in FactsReader(tmp_path / "run").events() if e["moment"] == Moment.EPOCH_END]
    means = [each["train_loss"] for each in ends[-2:]]
    assert means == pytest.approx([sum(losses[:2]) / 2, sum(losses[2:]) / 2])


def test_the_checkpoint_of_the_resume_is_forgotten_after_the_first_step(tmp_path):
    stopped(tmp_path)
    again = with_other_rate(Resumable(tmp_path))
    kept: list[Any] = []
    with again.attach(allow_changed=("optimizer",)) as run:
        (replay,) = [
            each
            for each in gc.get_objects()
            if type(each) is LoopReplay and each._state.parts.model is again.model
        ]
        kept.append(replay._changed_point)
        again.train(run, lambda _told: kept.append(replay._changed_point))
        assert replay.restored is None
    assert kept[0] is kept[1] is not None
    assert kept[2:] == [None] * (len(kept) - 2)


@pytest.mark.parametrize("given", ["colour", ("colour",)])
def test_an_unknown_field_is_refused(given, tmp_path):
    with pytest.raises(ConfigError, match="give a tuple of model, optimizer"):
        Resumable(tmp_path).attach(allow_changed=given)
