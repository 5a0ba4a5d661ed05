"""Settings of competitive learning, and thresholds for dead features and winners; no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, one_of, require, within

Variant = Literal["novelty", "rescue", "neighborhood", "balance"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
DEAD_BELOW = 0.01
"""A feature with a lower win rate is dead."""
WINNER_ABOVE = 0.05
"""A feature with a higher win rate is a winner. Between the two are contenders."""
UNREACHABLE_BELOW = 1e-3
"""If both forces, summed over a batch, are below this, nothing changes the feature any more."""


@dataclass(frozen=True, kw_only=True)
class BCLConfig:
    """How the features of one layer compete.

    >>> BCLConfig(variant="rescue").rescue_k
    5
    """

    neighborhood_k: int = 8
    """Rivals of a feature: its nearest others by cosine of the weights; at most all others."""
    temperature: float = 5.0
    """How sharply a margin in strength becomes a win."""
    som_lr: float = 0.005
    """Share of the way to its target that a feature is pulled at each step, from 0 to 1."""
    recompute_every: int = 50
    """Backward passes between two searches for the nearest neighbours."""
    rescue_k: int = 5
    """Inputs that a losing feature is pulled to (variant rescue); at most the batch."""
    variant: Variant = "novelty"
    """novelty: three forces; rescue: mask by rank and pull losers to inputs that no feature covers;
    neighborhood: gate alone, with a floor; balance: every gradient whole, losers louder and
    winners quieter."""

    def __post_init__(self) -> None:
        require(
            at_least("neighborhood_k", self.neighborhood_k, 1),
            at_least("recompute_every", self.recompute_every, 1),
            at_least("rescue_k", self.rescue_k, 1),
            within("som_lr", self.som_lr, 0, 1),
            one_of("variant", self.variant, VARIANTS),
        )
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature must be above 0, got {self.temperature}")
