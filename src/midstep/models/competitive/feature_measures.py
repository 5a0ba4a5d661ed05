"""Pure measures of the features: of weights, win rates and reconstructions.

Shapes: D features, I inputs of a feature.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import math

import torch
from torch import Tensor

from midstep.models.competitive.settings import DEAD_BELOW, UNREACHABLE_BELOW, WINNER_ABOVE


def l1(pixels: Tensor, images: Tensor) -> float:
    """Mean absolute error.

    >>> l1(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.0]))
    0.25
    """
    return float((pixels - images).abs().mean())


def psnr(pixels: Tensor, images: Tensor, *, peak: float = 1.0) -> float:
    """Peak signal-to-noise ratio in decibels; infinite for a perfect copy.

    >>> round(psnr(torch.tensor([0.1]), torch.tensor([0.0])), 3)
    20.0
    """
    error = float((pixels - images).double().square().mean())
    if error == 0:
        return math.inf
    return 10 * math.log10(peak**2 / error)


def mean_pairwise_cosine(weight_DI: Tensor) -> float:
    """Mean cosine of pairs of different rows; 0 for a single row.

    >>> mean_pairwise_cosine(torch.eye(3))
    0.0
    """
    features = len(weight_DI)
    if features < 2:
        return 0.0
    unit_DI = torch.nn.functional.normalize(weight_DI.double(), dim=1)
    # Σ_ij u_i · u_j = |Σ_i u_i|²: no D × D matrix is needed.
    lengths = unit_DI.square().sum()  # the diagonal; a zero row has cosine 0 with all
    return float((unit_DI.sum(dim=0).square().sum() - lengths) / (features * (features - 1)))


def cosine_blocks(weight_DI: Tensor, cells: int) -> Tensor:
    """Cosines of all pairs of rows, [D, D]; above `cells` rows means over blocks, [cells, cells].

    >>> cosine_blocks(torch.eye(2), 8).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    unit_DI = torch.nn.functional.normalize(weight_DI.double(), dim=1)
    cosine_DD = unit_DI @ unit_DI.T
    if len(cosine_DD) <= cells:
        return cosine_DD
    return torch.nn.functional.adaptive_avg_pool2d(cosine_DD[None], cells)[0]


def effective_rank(weight_DI: Tensor) -> float:
    """Exponential of the entropy of the normalised singular values; 0 for a zero matrix.

    >>> round(effective_rank(torch.eye(4)), 6)
    4.0
    """
    if not bool(torch.isfinite(weight_DI).all()):
        return math.nan
    values = torch.linalg.svdvals(weight_DI.double())
    total = values.sum()
    if float(total) == 0:
        return 0.0
    return float(torch.special.entr(values / total).sum().exp())


def dead(win_rate_D: Tensor) -> int:
    """How many features win less than 1 % of the samples.

    >>> dead(torch.tensor([0.001, 0.02, 0.3]))
    1
    """
    return int((win_rate_D < DEAD_BELOW).sum())


def winners(win_rate_D: Tensor) -> int:
    """How many features win more than 5 % of the samples.

    >>> winners(torch.tensor([0.001, 0.02, 0.3]))
    1
    """
    return int((win_rate_D > WINNER_ABOVE).sum())


def unreachable(
    grad_magnitude_D: Tensor, som_magnitude_D: Tensor, *, below: float = UNREACHABLE_BELOW
) -> int:
    """How many features neither the gradient nor the pull can move.

    >>> unreachable(torch.tensor([0.0, 0.5]), torch.tensor([0.0, 0.0]))
    1
    """
    return int(((grad_magnitude_D < below) & (som_magnitude_D < below)).sum())


def gini(win_rate_D: Tensor) -> float:
    """Inequality of win rates: 0 when all are equal, near 1 when one feature wins all samples.

    >>> gini(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    0.75
    """
    # Gini = Σ_i (2i − D − 1) x_i / (D Σ_i x_i) over rising x.
    rising_D = win_rate_D.double().sort().values
    total, features = float(rising_D.sum()), len(rising_D)
    if total == 0:
        return 0.0
    rank_D = torch.arange(1, features + 1, dtype=torch.float64, device=rising_D.device)
    return float(((2 * rank_D - features - 1) * rising_D).sum()) / (features * total)


def velocity(before_DI: Tensor, after_DI: Tensor, steps: int) -> Tensor:
    """Distance that each row moved per step, [D].

    >>> velocity(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), 5)
    tensor([1.])
    """
    distance_D: Tensor = (after_DI - before_DI).norm(dim=1)
    return distance_D / max(1, steps)
