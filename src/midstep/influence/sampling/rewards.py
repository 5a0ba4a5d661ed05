"""Rewards of judged responses, their advantages, and the weights of the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.core.field_checks import one_of, require
from midstep.influence.sampling.prompt_sets import Judgement


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Weights of the rules."""

    format_weight: float = 0.1
    """Weight of the requested form."""
    answer_weight: float = 1.0
    """Weight of the exact answer."""

    def __post_init__(self) -> None:
        for name in ("format_weight", "answer_weight"):
            if not math.isfinite(getattr(self, name)):
                raise ConfigError(f"{name} must be a finite number, got {getattr(self, name)}")


def weighted_reward(judgement: Judgement, config: RewardConfig) -> float:
    """The weighted sum of the rules.

    >>> weighted_reward(Judgement(format=1.0, answer=1.0), RewardConfig())
    1.1
    """
    return config.format_weight * judgement.format + config.answer_weight * judgement.answer


Scheme = Literal["grpo", "dr_grpo", "rloo", "reinforce"]


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """How rewards become weights of the update; formulas in docs/how-to/explain-an-update.md."""

    scheme: Scheme = "grpo"
    """grpo, dr_grpo, rloo or reinforce."""
    epsilon: float = 1e-4
    """Added to the standard deviation of a group (grpo)."""
    baseline: float = 0.0
    """Subtracted from every reward (reinforce)."""

    def __post_init__(self) -> None:
        require(one_of("scheme", self.scheme, get_args(Scheme)))
        if not self.epsilon >= 0 or not math.isfinite(self.baseline):
            raise ConfigError(
                f"epsilon must be 0 or above and baseline finite, got {self.epsilon} and "
                f"{self.baseline}"
            )


def advantages_of(rewards: Tensor, groups: Sequence[str | int], config: AdvantageConfig) -> Tensor:
    """Advantages [N] of rewards [N]; sequences of one prompt share a group.

    >>> advantages_of(torch.tensor([1.0, 0.0]), ["p", "p"], AdvantageConfig(scheme="rloo"))
    tensor([ 1., -1.], dtype=torch.float64)
    """
    rewards = rewards.to(torch.float64)
    if not rewards.isfinite().all():
        raise ConfigError(
            "a reward is NaN or infinite; correct the reward rule, or leave the sequence out"
        )
    if config.scheme == "reinforce":
        return rewards - config.baseline
    advantages = torch.empty_like(rewards)
    for group in dict.fromkeys(groups):
        rows = torch.tensor([at for at, one in enumerate(groups) if one == group])
        if len(rows) < 2:
            raise ConfigError(
                f"{config.scheme} compares responses to one prompt, and a prompt has {len(rows)}; "
                "use completions_per_prompt=2 or more, or the scheme reinforce"
            )
        advantages[rows] = _group_advantages(rewards[rows], config)
    return advantages


def _group_advantages(rewards_G: Tensor, config: AdvantageConfig) -> Tensor:
    centred = rewards_G - rewards_G.mean()
    if config.scheme == "grpo":
        return centred / (rewards_G.std() + config.epsilon)
    if config.scheme == "dr_grpo":
        return centred
    members = len(rewards_G)
    # rloo: the baseline is the mean of the other responses in the group.
    return rewards_G - (rewards_G.sum() - rewards_G) / (members - 1)


def weights_of(
    advantages: Tensor,
    response_lengths: Sequence[int],
    config: AdvantageConfig,
    *,
    max_new_tokens: int,
) -> Tensor:
    """Weights w [N] of the loss −Σ w log π that the scheme implies."""
    return advantages * normalisers_of(response_lengths, config, max_new_tokens=max_new_tokens)


def normalisers_of(
    response_lengths: Sequence[int], config: AdvantageConfig, *, max_new_tokens: int
) -> Tensor:
    """The factor n [N] of each advantage in the loss of the scheme."""
    lengths = torch.tensor(response_lengths, dtype=torch.float64)
    if config.scheme == "grpo":
        return 1 / (len(lengths) * lengths)
    if config.scheme == "dr_grpo":
        return torch.full_like(lengths, 1 / (len(lengths) * max_new_tokens))
    return torch.full_like(lengths, 1 / len(lengths))
