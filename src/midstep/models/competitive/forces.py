"""The forces that follow from a competition: a mask on the gradient, and a pull on the weights.

One function per variant, all with the same signature. Each pull is a weight per sample and feature,
normalised over the samples. So a target is a weighted mean of the inputs, and

    som_targets = som_weightᵀ x ÷ (contender_weight + attraction_weight)

computes both pulls in one matrix product.

Shapes: B samples, D features, I inputs of a feature, k inputs chosen by `rescue`.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from midstep.models.competitive.competition import EPSILON, Competition
from midstep.models.competitive.settings import BCLConfig, Variant

GRADIENT_FLOOR = 0.1
"""Smallest share of its gradient that a feature keeps in the variant neighborhood."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Forces:
    """Mask and pull of one batch."""

    grad_mask_BD: Tensor
    gradient_weight_D: Tensor
    contender_weight_D: Tensor
    attraction_weight_D: Tensor
    som_weight_BD: Tensor
    som_targets_DI: Tensor
    som_delta_DI: Tensor


def novelty_forces(
    competition: Competition, x_BI: Tensor, w_DI: Tensor, config: BCLConfig
) -> Forces:
    """Winners follow the gradient, contenders inputs new near the winner, others all inputs."""
    effective_win_D, win_rate_D = competition.effective_win_D, competition.win_rate_D
    contender_D = (1 - effective_win_D) * win_rate_D
    attraction_D = (1 - effective_win_D) * (1 - win_rate_D)
    rank_BD, novelty_D = competition.rank_score_BD, competition.feature_novelty_D
    # With two features or more, coverage is at least 1, so novelty exceeds 1 only by rounding. A
    # negative value could make a column sum to -ε, and the division infinite.
    crowding_D = (1 - novelty_D).clamp_min(0)
    local_BD = (
        rank_BD * competition.local_novelty_BD * competition.in_nbr_BD * (crowding_D * contender_D)
    )
    global_BD = (1 - rank_BD) / (competition.coverage_B + EPSILON)[:, None] * attraction_D
    som_weight_BD = (
        _normalise_columns(local_BD) * contender_D + _normalise_columns(global_BD) * attraction_D
    )
    targets_DI = (som_weight_BD / (contender_D + attraction_D + EPSILON)).T @ x_BI
    return Forces(
        grad_mask_BD=rank_BD * (novelty_D * effective_win_D),
        gradient_weight_D=effective_win_D,
        contender_weight_D=contender_D,
        attraction_weight_D=attraction_D,
        som_weight_BD=som_weight_BD,
        som_targets_DI=targets_DI,
        som_delta_DI=(targets_DI - w_DI).mul_(config.som_lr),
    )


def rescue_forces(
    competition: Competition, x_BI: Tensor, w_DI: Tensor, config: BCLConfig
) -> Forces:
    """Gradient by rank; crowded features are pulled to locally new wins and uncovered inputs.

    The strength 1 - novelty of the pull is split by win rate into the two blending weights. Their
    sum is the strength, and their ratio blends the targets.
    """
    strength_D = (1 - competition.feature_novelty_D).clamp_min(0)
    contender_D = strength_D * competition.win_rate_D
    attraction_D = strength_D * (1 - competition.win_rate_D)
    winner_BD = _normalise_columns(competition.rank_score_BD * competition.local_novelty_BD)
    rescue_BD = _rescue_pull(competition.coverage_B, x_BI, w_DI, config.rescue_k)
    blend_BD = winner_BD * competition.win_rate_D + rescue_BD * (1 - competition.win_rate_D)
    targets_DI = blend_BD.T @ x_BI
    return Forces(
        grad_mask_BD=competition.rank_score_BD,
        gradient_weight_D=torch.ones_like(strength_D),
        contender_weight_D=contender_D,
        attraction_weight_D=attraction_D,
        som_weight_BD=blend_BD * strength_D,
        som_targets_DI=targets_DI,
        som_delta_DI=(targets_DI - w_DI) * (config.som_lr * strength_D)[:, None],
    )


def neighborhood_forces(
    competition: Competition, _x_BI: Tensor, w_DI: Tensor, _: BCLConfig
) -> Forces:
    """Gradient by rank with a floor. There is no pull, so each target is the feature itself."""
    none_D = torch.zeros_like(competition.win_rate_D)
    return Forces(
        grad_mask_BD=competition.rank_score_BD.clamp_min(GRADIENT_FLOOR),
        gradient_weight_D=torch.ones_like(none_D),
        contender_weight_D=none_D,
        attraction_weight_D=none_D,
        som_weight_BD=torch.zeros_like(competition.rank_score_BD),
        som_targets_DI=w_DI.clone(),
        som_delta_DI=torch.zeros_like(w_DI),
    )


def balance_forces(
    competition: Competition, x_BI: Tensor, w_DI: Tensor, config: BCLConfig
) -> Forces:
    """Gradients pass unmasked; only the length of a feature is changed, never its direction.

    The fair share of wins is one sample in neighbours + 1. A feature that wins less is pulled to a
    longer copy of itself, one that wins more to a shorter copy. The mean over the features is
    subtracted, so the layer as a whole keeps its scale.
    """
    share = 1 / (min(config.neighborhood_k, len(w_DI) - 1) + 1)
    deficit_D = (1 - competition.win_rate_D / share).clamp(-1, 1)
    deficit_D = deficit_D - deficit_D.mean()
    targets_DI = w_DI * (1 + deficit_D)[:, None]
    return Forces(
        grad_mask_BD=torch.ones_like(competition.rank_score_BD),
        gradient_weight_D=torch.ones_like(deficit_D),
        contender_weight_D=torch.zeros_like(deficit_D),
        attraction_weight_D=deficit_D.abs(),
        som_weight_BD=(deficit_D.abs() / len(x_BI)).expand_as(competition.rank_score_BD),
        som_targets_DI=targets_DI,
        som_delta_DI=(targets_DI - w_DI).mul_(config.som_lr),
    )


FORCES: Mapping[Variant, Callable[[Competition, Tensor, Tensor, BCLConfig], Forces]] = (
    MappingProxyType(
        {
            "novelty": novelty_forces,
            "rescue": rescue_forces,
            "neighborhood": neighborhood_forces,
            "balance": balance_forces,
        }
    )
)


def step_metrics(competition: Competition, forces: Forces) -> dict[str, Tensor]:
    """Metrics per feature, [D] each, as the metrics table shows them."""
    return {
        "win_rate": competition.win_rate_D,
        "grad_magnitude": forces.grad_mask_BD.sum(dim=0),
        "som_magnitude": forces.som_weight_BD.sum(dim=0),
        "feature_novelty": competition.feature_novelty_D,
        "effective_win": competition.effective_win_D,
        "gradient_weight": forces.gradient_weight_D,
        "contender_weight": forces.contender_weight_D,
        "attraction_weight": forces.attraction_weight_D,
        "mean_activation": competition.mean_activation_D,
    }


def step_tensors(competition: Competition, forces: Forces) -> dict[str, Tensor]:
    """The raw tensors of a step: [B, D], feature_novelty [D], som_targets and som_delta [D, I]."""
    return {
        "rank_score": competition.rank_score_BD,
        "grad_mask": forces.grad_mask_BD,
        "som_weight": forces.som_weight_BD,
        "strength": competition.strength_BD,
        "in_nbr": competition.in_nbr_BD,
        "feature_novelty": competition.feature_novelty_D,
        "som_targets": forces.som_targets_DI,
        "som_delta": forces.som_delta_DI,
    }


def _normalise_columns(pull_BD: Tensor) -> Tensor:
    """Each column divided by its sum."""
    return pull_BD / (pull_BD.sum(dim=0) + EPSILON)


def _rescue_pull(coverage_B: Tensor, x_BI: Tensor, w_DI: Tensor, rescue_k: int) -> Tensor:
    """Equal weights on the inputs that resemble the feature and that no feature covers, [B, D].

    Ranks instead of cosines: a feature that resembles no input still has inputs that it resembles
    most.
    """
    norms_BD = x_BI.norm(dim=1)[:, None] * w_DI.norm(dim=1)
    affinity_BD = (x_BI @ w_DI.T) / (norms_BD + EPSILON)
    score_BD = _rank_in_batch(affinity_BD) / (coverage_B + 1)[:, None]
    chosen_kD = score_BD.topk(min(rescue_k, len(x_BI)), dim=0).indices
    return torch.zeros_like(affinity_BD).scatter_(0, chosen_kD, 1 / len(chosen_kD))


def _rank_in_batch(values_BD: Tensor) -> Tensor:
    """Ranks per column: 1 for the smallest, B for the largest; of equals the earlier is smaller."""
    columns_DB = values_BD.T.contiguous()
    order_DB = columns_DB.sort(dim=1, stable=True).indices
    rank_B = torch.arange(1, len(values_BD) + 1, dtype=values_BD.dtype, device=values_BD.device)
    return torch.empty_like(columns_DB).scatter_(1, order_DB, rank_B.expand_as(columns_DB)).T
