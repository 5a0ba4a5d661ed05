"""Which feature wins: each feature against its nearest neighbours, on each sample.

Pure functions of tensors. Shapes: B samples, D features, I inputs of a feature,
K neighbours.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-8
"""Added to every denominator that may be zero."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours:
    """The rivals N(f) of every feature f, without f itself."""

    ids_DK: Tensor
    """Ids of the neighbours, nearest first."""
    adjacency_DD: Tensor
    """1 where the column's feature is a neighbour of the row's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Competition:
    """The result of the competition on one batch."""

    strength_BD: Tensor
    rank_score_BD: Tensor
    coverage_B: Tensor
    win_rate_D: Tensor
    feature_novelty_D: Tensor
    local_novelty_BD: Tensor
    in_nbr_BD: Tensor
    effective_win_D: Tensor
    mean_activation_D: Tensor


def find_neighbours(weight_DI: Tensor, k: int) -> Neighbours:
    """The `k` nearest other rows by cosine; all others when there are fewer.

    >>> find_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).ids_DK.tolist()
    [[1], [0], [1]]
    """
    unit_DI = weight_DI / (weight_DI.norm(dim=1, keepdim=True) + EPSILON)
    cosine_DD = (unit_DI @ unit_DI.T).fill_diagonal_(-torch.inf)
    ids_DK = cosine_DD.topk(min(k, len(weight_DI) - 1), dim=1).indices
    return neighbours_from_ids(ids_DK, weight_DI.dtype)


def neighbours_from_ids(ids_DK: Tensor, dtype: torch.dtype) -> Neighbours:
    """The same neighbours from their ids alone."""
    features = len(ids_DK)
    zeros_DD = torch.zeros(features, features, dtype=dtype, device=ids_DK.device)
    return Neighbours(ids_DK=ids_DK, adjacency_DD=zeros_DD.scatter_(1, ids_DK, 1.0))


def compete(activations_BD: Tensor, neighbours: Neighbours, temperature: float) -> Competition:
    """Rank scores of a batch, and the quantities that follow from them."""
    strength_BD = activations_BD.abs()
    margin_BD = strength_BD - _strongest_neighbour(strength_BD, neighbours.ids_DK)
    # A soft win: above 1/2 when the feature is stronger than all its neighbours.
    rank_score_BD = torch.sigmoid(temperature * margin_BD)
    coverage_B = rank_score_BD.sum(dim=1)
    win_rate_D = rank_score_BD.mean(dim=0)
    # A sample that many features win counts little for each: novelty is 1 for a feature that wins
    # alone, and falls with the number of others.
    shared_D = (rank_score_BD / (coverage_B + EPSILON)[:, None]).sum(dim=0)
    feature_novelty_D = shared_D / (rank_score_BD.sum(dim=0) + EPSILON)
    local_coverage_BD = rank_score_BD @ neighbours.adjacency_DD.T
    return Competition(
        strength_BD=strength_BD,
        rank_score_BD=rank_score_BD,
        coverage_B=coverage_B,
        win_rate_D=win_rate_D,
        feature_novelty_D=feature_novelty_D,
        local_novelty_BD=1 / (local_coverage_BD + 1),
        in_nbr_BD=neighbours.adjacency_DD[rank_score_BD.argmax(dim=1)],
        effective_win_D=win_rate_D * feature_novelty_D,
        mean_activation_D=activations_BD.mean(dim=0),
    )


def _strongest_neighbour(strength_BD: Tensor, ids_DK: Tensor) -> Tensor:
    """Strength of the strongest neighbour; 0, the smallest strength, for a feature without one."""
    if ids_DK.shape[1] == 0:
        return torch.zeros_like(strength_BD)
    # Rows of the transpose are contiguous, so the gather copies rows instead of single numbers.
    return strength_BD.T.contiguous()[ids_DK].amax(dim=1).T
