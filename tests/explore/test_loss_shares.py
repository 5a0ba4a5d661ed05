"""Losses of samples combine to the loss of their batch, or they are refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from midstep.explore.loss_shares import loss_shares, sample_weights

LOSSES = torch.tensor([0.5, 2.0, 4.0])
COUNTS = torch.tensor([10, 1, 0])


@pytest.mark.parametrize(
    ("batch_loss", "counts", "weights"),
    [
        (LOSSES.mean(), None, [1 / 3, 1 / 3, 1 / 3]),
        (LOSSES.sum(), None, [1, 1, 1]),
        (7.0 / 11, COUNTS, [10 / 11, 1 / 11, 0]),
        (LOSSES.mean() * 1.0009, None, [1 / 3, 1 / 3, 1 / 3]),
        (LOSSES.mean() * 1.0011, None, None),
        (1.0, None, None),
    ],
)
def test_weights_are_those_that_give_the_batch_loss(
    batch_loss: float, counts: Tensor | None, weights: list[float] | None
) -> None:
    got = sample_weights(LOSSES, float(batch_loss), counts)
    assert (got is None) == (weights is None)
    if got is not None:
        torch.testing.assert_close(got, torch.tensor(weights, dtype=torch.float64))


def test_a_nan_of_one_sample_explains_a_nan_of_the_batch() -> None:
    losses = torch.tensor([1.0, math.nan])
    assert sample_weights(losses, math.nan) is not None
    assert sample_weights(losses, 1.0) is None
    assert sample_weights(torch.ones(2), math.nan) is None


def test_losses_of_both_signs_that_cancel_still_combine() -> None:
    losses = torch.tensor([1.0, -1.0])
    assert sample_weights(losses, 1e-9) is not None
    assert loss_shares(losses, torch.ones(2)) is None


def test_a_sample_without_counted_tokens_has_no_share() -> None:
    losses = torch.tensor([2.0, math.nan])
    weights = sample_weights(losses, 2.0, torch.tensor([3, 0]))
    assert weights is not None
    shares = loss_shares(losses, weights)
    assert shares is not None
    assert shares.tolist() == [1.0, 0.0]
