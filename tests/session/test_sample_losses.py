"""A session knows the loss of each sample: of its default step, and of most steps of users."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.control.capture import subscriptions
from midstep.control.capture.captured_data import ShownSamples
from midstep.control.capture.subscriptions import Need
from midstep.explore import work_budget
from midstep.facts import FactsReader
from midstep.session import Session, SessionConfig
from midstep.session.fit.fit_loop import HOW_TO

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(8) % 5


def one_step(
    tmp_path: Any, net: nn.Module, loss_fn: Any, step: Any = None, **config: Any
) -> ShownSamples:
    """The samples of a session's first step."""
    loader = DataLoader(TensorDataset(X, Y), batch_size=8 // config.get("accumulate_steps", 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    settings = SessionConfig(save_dir=tmp_path, **config)
    with Session(net, optimizer, loss_fn, loader, config=settings) as session:
        if step is not None:
            session.training_step(step)
        with session.controller.captures.viewer(Need(kind="batch", count=8)):
            session.fit(steps=1)
        captures = session.controller.captures
        assert not net._forward_hooks
    return captures.recent[0].samples(0, 8)


@pytest.mark.parametrize("config", [{}, {"accumulate_steps": 4}, {"amp": "bf16"}], ids=str)
def test_the_default_step_knows_losses_and_predictions(tmp_path, config):
    net, loss = nn.Linear(4, 5), nn.CrossEntropyLoss()
    with torch.autocast("cpu", torch.bfloat16, enabled="amp" in config):
        output = net(X).float()
    shown = one_step(tmp_path, net, loss, **config)
    losses = F.cross_entropy(output, Y, reduction="none").detach()
    torch.testing.assert_close(shown.losses, losses)
    assert float(shown.loss_shares.sum()) == pytest.approx(1)
    assert shown.predictions.tolist() == output.argmax(1).tolist()


def test_a_step_of_the_user_is_seen_by_its_loss_module_or_by_the_model(tmp_path):
    net, loss = nn.Linear(4, 5), nn.MultiMarginLoss()

    def of_module(model: nn.Module, batch: Any) -> Any:
        return {"loss": loss(model(batch[0]), batch[1]), "extra": 1.0}

    output = net(X)
    expected = [loss(output[i : i + 1], Y[i : i + 1]) for i in range(8)]
    shown = one_step(tmp_path, net, loss, of_module)
    torch.testing.assert_close(shown.losses, torch.stack(expected).detach())
    output = net(X)
    shown = one_step(tmp_path, net, None, lambda m, batch: F.cross_entropy(m(batch[0]), batch[1]))
    expected = F.cross_entropy(output, Y, reduction="none").detach()
    torch.testing.assert_close(shown.losses, expected)
    shown = one_step(tmp_path, net, None, lambda m, batch: m(batch[0]).std())
    assert (shown.losses, shown.loss_note) == (None, HOW_TO)


@pytest.mark.parametrize(
    ("count", "interval_s"),
    [(None, 0.0), (8, 0.0), (8, math.inf)],
    ids=["shown whole", "shown in part", "not shown"],
)
def test_a_stop_names_its_samples_also_when_the_budget_of_losses_is_spent(
    tmp_path, monkeypatch, count, interval_s
):
    # The losses of the first step spend the budget for hours. A stop comes in a step that is
    # captured for the reader, or between two of them.
    monkeypatch.setattr(work_budget, "SHARE", 1e-12)
    monkeypatch.setattr(subscriptions, "MIN_INTERVAL_S", interval_s)
    monkeypatch.setattr(subscriptions, "UNREAD_INTERVAL_S", interval_s)
    targets = torch.zeros(32, 1)
    targets[5] = 1000.0
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    loader = DataLoader(TensorDataset(torch.zeros(32, 4), targets), batch_size=32)
    config = SessionConfig(save_dir=tmp_path)
    with Session(net, optimizer, nn.MSELoss(), loader, config=config) as session:
        control = session.controller
        control.breakpoints.add("step", step=2, action="mark")
        control.breakpoints.add("step", step=3)
        control.sinks.on_park(control.stop)
        with control.captures.viewer(Need(kind="batch", count=count)):
            session.fit(steps=4)
    hits = [
        (each["kind"], each["step"], each["note"], each["samples"])
        for each in FactsReader(session.run.dir).events()
        if each.get("kind") in ("mark", "breakpoint")
    ]
    found = "1 of 32 samples carries 100 % of the loss"
    assert hits == [("mark", 2, None, []), ("breakpoint", 3, found, [5])]
