"""Numbers that a loss counts with: saved once they have changed, and reset by going back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from midstep.session.state.untracked_tensors import LossAttributes
from tests.checkers.matrix import AnnealedLoss, AnnealedObject

X = torch.ones(2, 1)


class Outer(nn.Module):
    """Has its counter in a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.alpha = AnnealedLoss(), 0.5

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.alpha * self.inner(output, target)


@pytest.mark.parametrize(
    ("make", "name"), [(AnnealedObject, "calls"), (AnnealedLoss, "calls"), (Outer, "inner.calls")]
)
def test_a_counter_is_saved_restored_and_taken_back(make, name):
    loss_fn = make()
    attributes = LossAttributes(loss_fn)
    start = attributes.state_dict()
    values = [loss_fn(X, 0 * X).item() for _ in range(2)]
    middle = attributes.state_dict()
    after = [loss_fn(X, 0 * X).item() for _ in range(2)]
    assert (start, middle) == ({}, {name: 2})
    attributes.load_state_dict(middle)
    assert [loss_fn(X, 0 * X).item() for _ in range(2)] == after
    attributes.load_state_dict(start)
    assert [loss_fn(X, 0 * X).item() for _ in range(2)] == values
    again = make()
    LossAttributes(again).load_state_dict(middle)
    assert [again(X, 0 * X).item() for _ in range(2)] == after


def test_a_setting_that_was_edited_stays():
    before, now = Outer(), Outer()
    attributes = LossAttributes(before)
    before(X, 0 * X)
    now.alpha = 0.1
    LossAttributes(now).load_state_dict(attributes.state_dict())
    assert (now.alpha, now.inner.calls) == (0.1, 1)


@pytest.mark.parametrize("loss_fn", [nn.MSELoss(), nn.functional.mse_loss, lambda a, b: a - b])
def test_losses_without_numbers_of_their_own_have_no_part(loss_fn):
    assert not LossAttributes(loss_fn)


def test_the_mode_of_a_module_is_no_counter():
    loss_fn = Outer()
    attributes = LossAttributes(loss_fn)
    loss_fn.eval()
    assert attributes.state_dict() == {}


@dataclass(frozen=True)
class Frozen:
    """Refuses each assignment to its attributes."""

    alpha: float = 0.5

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.alpha * (output - target).abs().mean()


class RunningLoss(nn.Module):
    """Keeps a running loss, which is None before the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.running: float | None = None

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = (output - target).abs().mean()
        self.running = loss.item() if self.running is None else 0.5 * self.running
        return loss


def test_a_number_that_has_not_changed_is_not_set():
    attributes = LossAttributes(Frozen())
    assert attributes
    attributes.load_state_dict(attributes.state_dict())


def test_a_number_that_was_none_at_the_start_is_none_again():
    loss_fn = RunningLoss()
    attributes = LossAttributes(loss_fn)
    start = attributes.state_dict()
    loss_fn(X, 0 * X)
    middle = attributes.state_dict()
    loss_fn(X, 0 * X)
    attributes.load_state_dict(middle)
    assert loss_fn.running == 1.0
    attributes.load_state_dict(start)
    assert loss_fn.running is None


def test_a_number_that_was_made_after_the_start_is_removed():
    loss_fn = RunningLoss()
    attributes = LossAttributes(loss_fn)
    start = attributes.state_dict()
    loss_fn.calls = 3
    attributes.load_state_dict(start)
    assert not hasattr(loss_fn, "calls")
