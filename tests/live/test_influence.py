"""`influence` on an attached loop: offered where the loss is declared, and true to the step."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.control import Command
from midstep.core.errors import ControlError
from midstep.live import attach
from tests.checkers.neutral import wait_until
from tests.live.test_attach import parked_at
from tests.live.trainer import Plain, in_thread


class Loop:
    """A plain loop over pairs, its loss a module."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        inputs = torch.randn(16, 3)
        self.loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.loss_fn = nn.MSELoss()
        self.before: list[dict[str, torch.Tensor]] = []

    def train(self, run) -> None:
        for _ in run.epochs(2):
            for x, y in self.loader:
                self.before.append({k: v.clone() for k, v in self.model.state_dict().items()})
                self.optimizer.zero_grad()
                self.loss_fn(self.model(x), y).backward()
                self.optimizer.step()

    def losses(self, batch) -> torch.Tensor:
        with torch.no_grad():
            return (self.model(batch[0]) - batch[1]).square().mean(1)


def test_an_attached_loop_tells_which_sample_moved_which(tmp_path):
    loop = Loop()
    run = attach(
        loop.model,
        loop.optimizer,
        loop.loader,
        loss_fn=loop.loss_fn,
        save_dir=tmp_path,
        start_paused=True,
    )
    control = run.controller
    with in_thread(run, loop.train):
        wait_until(control, parked_at(0))
        control.step(3)
        wait_until(control, parked_at(3))
        told = control.submit(Command(name="influence")).result(30)
        table = control.captures.reader.shown().values["influence_samples"]
        batch = control.get_batch()["batch"]
        now, weights = loop.losses(batch), loop.model.state_dict()
        after = {name: each.clone() for name, each in weights.items()}
        loop.model.load_state_dict(loop.before[2])
        true = now - loop.losses(batch)
        loop.model.load_state_dict(after)
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert (told["step"], told["samples"]) == (3, 4)
    torch.testing.assert_close(table["change"], true, rtol=0.02, atol=1e-6)
    assert table["sample"] == ["8", "9", "10", "11"]


class WeightedMean(nn.Module):
    """A mean with weights, as over the tokens of texts."""

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        weights = target.abs() + 0.1
        return ((output - target).square() * weights).sum() / weights.sum()


@pytest.mark.parametrize(
    ("loss_fn", "samples", "words"),
    [
        (nn.MSELoss(), 16, None),
        (nn.MSELoss(), 14, "2 micro-batches whose samples have different shares"),
        (WeightedMean(), 16, "2 micro-batches whose samples have different shares"),
    ],
    ids=["equal", "unequal sizes", "weighted"],
)
def test_an_accumulated_step_is_refused_where_shares_are_unknown(tmp_path, loss_fn, samples, words):
    loop = Loop()
    data = TensorDataset(*(each[:samples] for each in loop.loader.dataset.tensors))
    loop.loader, loop.loss_fn = DataLoader(data, batch_size=4), loss_fn

    def train(run) -> None:
        for _ in run.epochs(1):
            for i, (x, y) in enumerate(loop.loader):
                (loss_fn(loop.model(x), y) / 2).backward()
                if i % 2:
                    loop.optimizer.step()
                    loop.optimizer.zero_grad()

    run = attach(
        loop.model, loop.optimizer, loop.loader, loss_fn=loss_fn, save_dir=tmp_path,
        start_paused=True,
    )  # fmt: skip
    control = run.controller
    with in_thread(run, train):
        wait_until(control, parked_at(0))
        control.step(2)
        wait_until(control, parked_at(2))
        asked = control.submit(Command(name="influence"))
        if words is None:
            assert asked.result(30)["samples"] == 8
        else:
            with pytest.raises(ControlError, match=words):
                asked.result(30)
        control.resume()


@pytest.mark.parametrize("loss_fn", [None, nn.MSELoss()], ids=["unknown", "declared"])
def test_it_is_offered_where_a_loss_is_declared(tmp_path, loss_fn):
    plain = Plain()
    with attach(*plain.parts, loss_fn=loss_fn, save_dir=tmp_path) as run:
        assert ("influence" in run.controller.queue.registry) is (loss_fn is not None)
    assert "influence" not in run.controller.queue.registry
