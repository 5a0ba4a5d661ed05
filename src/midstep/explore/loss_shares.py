"""How the losses of single samples combine to the loss of their batch: a sum, or a weighted mean.

A loss that compares samples with each other (a contrastive loss, a batch statistic) does not
combine. Then the losses of single samples say nothing about the training and are not shown.

Shapes: B samples of a batch.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import math

import torch
from torch import Tensor

TOLERANCE = 1e-3
"""Relative difference allowed between the loss of the batch and what its samples combine to."""


def sample_weights(
    losses_B: Tensor, batch_loss: float, counts_B: Tensor | None = None, *, epsilon: float = 0.0
) -> Tensor | None:
    """The weights w [B] of the batch's loss L = Σ_j w_j l_j; None if no way to combine gives it.

    Tried in this order: the mean weighted by the counts, the mean, the sum. A loss that is not
    finite combines to a batch's loss that is not finite either.

    Args:
        losses_B: the loss of each sample as a batch of one. NaN where its count is 0.
        batch_loss: the loss of the whole batch.
        counts_B: what the mean is taken over in each sample, such as its counted tokens.
        epsilon: precision of the type in which the batch's loss was computed.

    >>> sample_weights(torch.tensor([1.0, 3.0]), 2.0)
    tensor([0.5000, 0.5000], dtype=torch.float64)
    >>> sample_weights(torch.tensor([1.0, 3.0]), 2.5, torch.tensor([1, 3]))
    tensor([0.2500, 0.7500], dtype=torch.float64)
    >>> sample_weights(torch.tensor([1.0, 3.0]), 1.0) is None
    True
    """
    ways = possible_weights(losses_B, counts_B)
    return next((each for each in ways if _gives(losses_B, each, batch_loss, epsilon)), None)


def possible_weights(losses_B: Tensor, counts_B: Tensor | None = None) -> tuple[Tensor, ...]:
    """The weights w [B] of the mean weighted by the counts, of the mean, and of the sum."""
    ones_B = torch.ones(len(losses_B), dtype=torch.float64)
    counted_B = ones_B if counts_B is None else counts_B.double()
    # A sample without anything counted is in no sum and in no mean.
    present_B = (counted_B > 0).double()
    means = [each / (float(each.sum()) or 1.0) for each in (counted_B, present_B)]
    return (*means, present_B)


def _gives(losses_B: Tensor, weights_B: Tensor, batch_loss: float, epsilon: float) -> bool:
    parts_B = contributions(losses_B, weights_B)
    return is_close(float(parts_B.sum()), batch_loss, float(parts_B.abs().sum()), epsilon)


def is_close(total: float, batch_loss: float, size: float, epsilon: float = 0.0) -> bool:
    """Whether a sum of parts is the loss of the batch, apart from rounding.

    Args:
        total: the sum.
        batch_loss: the loss of the batch.
        size: the sum of the sizes of the parts. Losses of both signs may cancel, so it is the
            scale of their rounding.
        epsilon: precision of the type in which the batch's loss was computed.
    """
    if not (math.isfinite(total) and math.isfinite(batch_loss)):
        return not (math.isfinite(total) or math.isfinite(batch_loss))
    scale = max(abs(batch_loss), size * 1e-3)
    return abs(total - batch_loss) <= max(TOLERANCE, 8 * epsilon) * scale


def contributions(losses_B: Tensor, weights_B: Tensor) -> Tensor:
    """w_j l_j; 0 for a sample without weight, whose own loss is not a number."""
    return torch.where(weights_B == 0, 0.0, losses_B.double() * weights_B)


def loss_shares(losses_B: Tensor, weights_B: Tensor) -> Tensor | None:
    """The share of each sample in the batch's loss, [B]; None if a part is negative or not finite.

    >>> loss_shares(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.5]))
    tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    parts_B = contributions(losses_B, weights_B)
    total = parts_B.sum()
    if not bool(parts_B.isfinite().all()) or bool((parts_B < 0).any()) or not float(total):
        return None
    return parts_B / total
