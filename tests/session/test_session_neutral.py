"""A session with its defaults is the plain loop, bit for bit, looked at or not."""

from __future__ import annotations

import contextlib
import random

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.live import serve
from midstep.session import Session, SessionConfig
from tests.checkers.neutral import CONDITIONS, Scene, Trace, Training, assert_neutral
from tests.checkers.trainings import conv_net, net_with_loss, small_transformer
from tests.data.order.loaders import Case, noise
from tests.session.sessions import Recipe

TRAININGS = {"conv net": conv_net, "transformer": small_transformer}


def in_session(training: Training, trace: Trace, scene: Scene, view: object = None) -> None:
    """The same training by `fit`."""
    config = SessionConfig(save_dir=scene.save_dir, enforce_sampler_state=False)
    session = Session(
        training.model,
        training.optimizer,
        training.criterion,
        training.loader,
        controller=scene.controller,
        config=config,
        view=view,
    )

    @session.training_step
    def step(model, batch):
        loss = training.loss(model, batch)
        trace.step(training, batch, loss)
        return loss

    @session.on_step
    def note(record):
        assert record.sample_ids == trace.ids[-1]
        assert record.loss.hex() == trace.losses[-1]

    with contextlib.ExitStack() as stack:
        stack.enter_context(session)
        if scene.page:
            scene.open_page(stack.enter_context(serve(session, port=0)).url)
        session.fit(epochs=training.epochs)


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS.keys())
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_session_that_is_looked_at_is_the_plain_loop(training, condition, tmp_path):
    assert_neutral(training, in_session, tmp_path, {condition: CONDITIONS[condition]})


@pytest.mark.parametrize("condition", ["stepped", "subscribed"])
def test_a_session_with_a_declared_loss_and_a_view_is_the_plain_loop(condition, tmp_path):
    """The loss has a state and draws random numbers; those of the samples are requested."""
    shown = midstep.view(class_names=[f"class {k}" for k in range(11)], denormalize=(0.5, 0.5))

    def looked_at(training: Training, trace: Trace, scene: Scene) -> None:
        in_session(training, trace, scene, view=shown)
        samples = scene.controller.captures.cloned_batch.samples(0, 8)
        assert samples.description.layout.kind == "images"

    assert_neutral(net_with_loss, looked_at, tmp_path, {condition: CONDITIONS[condition]})


@pytest.mark.parametrize(
    "workers", [{"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}], ids=str
)
def test_a_session_with_workers_is_the_plain_loop(workers, tmp_path):
    conditions = {"attached": CONDITIONS["attached"]}
    assert_neutral(lambda: conv_net(**workers), in_session, tmp_path, conditions)


def drawing_net() -> Training:
    """A training whose own step draws, and reads another loader that is shuffled."""
    random.seed(0)
    made = conv_net()
    loss, second = made.loss, DataLoader(range(7), batch_size=2, shuffle=True)

    def draw(model, batch):
        drawn = torch.rand(()) + sum(each.sum() for each in second) + random.random()
        return loss(model, batch) * (1 + drawn / 100)

    made.loss = draw
    return made


def test_a_step_that_draws_and_reads_a_second_loader_is_that_of_the_plain_loop(tmp_path):
    conditions = {name: CONDITIONS[name] for name in ("attached", "paused")}
    assert_neutral(drawing_net, in_session, tmp_path, conditions)


@pytest.mark.parametrize("policy", ["epoch_reseed", "fixed_order"])
def test_under_a_seeded_order_hooks_that_draw_move_no_sample(policy, tmp_path):
    def samples(folder, disturb):
        seen = []
        with Recipe(case=Case(policy=policy))({"save_dir": tmp_path / folder}) as session:

            @session.on_step
            def note(record):
                seen.append((list(record.sample_ids), session.trainer.batches[:]))
                if disturb:
                    noise()
                    list(DataLoader(range(7), shuffle=True))

            session.fit(steps=7)
        return seen

    assert samples("still", disturb=False) == samples("disturbed", disturb=True)


def make(seed: int = 0):
    torch.manual_seed(seed)
    data = TensorDataset(torch.randn(22, 3), torch.randint(2, (22,)))
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), data


def test_accumulation_clipping_scheduler_and_validation_are_those_of_a_plain_loop(tmp_path):
    """Six batches, four to a step: the last window of an epoch has two, and is scaled by that."""
    model, optimizer, data = make()
    loss_fn = nn.CrossEntropyLoss()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for _ in range(2):
        batches = iter(loader)
        for size in (4, 2):
            for _ in range(size):
                x, y = next(batches)
                (loss_fn(model(x), y) / size).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()
    expected = {**model.state_dict(), "lr": optimizer.param_groups[0]["lr"]}

    model, optimizer, data = make()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    config = SessionConfig(save_dir=tmp_path, accumulate_steps=4, grad_clip_norm=0.5)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    validation = DataLoader(data, batch_size=5, shuffle=True)
    with Session(
        model, optimizer, loss_fn, loader, validation, scheduler=scheduler, config=config
    ) as session:
        session.fit(epochs=2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert optimizer.param_groups[0]["lr"] == expected["lr"]
