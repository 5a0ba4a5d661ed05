"""Rewards by rule: what a judgement of form and answer is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from midstep.core.errors import ConfigError
from midstep.influence.sampling.prompts import Judgement

__all__ = ["RewardConfig", "reward_of"]


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """What each rule is worth."""

    format_weight: float = 0.1
    """For the form that was asked for."""
    answer_weight: float = 1.0
    """For the exact answer."""

    def __post_init__(self) -> None:
        for name in ("format_weight", "answer_weight"):
            if not math.isfinite(getattr(self, name)):
                raise ConfigError(f"{name} must be a finite number, got {getattr(self, name)}")


def reward_of(judgement: Judgement, config: RewardConfig) -> float:
    """The weighted sum of the rules.

    >>> reward_of(Judgement(format=1.0, answer=1.0), RewardConfig())
    1.1
    """
    return config.format_weight * judgement.format + config.answer_weight * judgement.answer
