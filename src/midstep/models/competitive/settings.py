"""Settings of competitive learning and the thresholds of its words; loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from midstep.core.errors import ConfigError

Variant = Literal["novelty", "rescue", "neighborhood", "balance"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
DEAD_BELOW = 0.01
"""Win rate of a dead feature."""
WINNER_ABOVE = 0.05
"""Win rate of a winner; between the two stand the contenders."""
UNREACHABLE_BELOW = 1e-3
"""Both forces below this, summed over a batch: nothing moves the feature any more."""


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
    """Backward passes between two looks for nearest neighbours."""
    rescue_k: int = 5
    """Inputs that a losing feature is pulled to (variant rescue); at most the batch."""
    variant: Variant = "novelty"
    """novelty: three forces; rescue: gate by rank and pull losers to what nobody covers;
    neighborhood: gate alone, with a floor; balance: every gradient whole, losers louder and
    winners quieter."""

    def __post_init__(self) -> None:
        for name in ("neighborhood_k", "recompute_every", "rescue_k"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature must be above 0, got {self.temperature}")
        if not 0 <= self.som_lr <= 1:
            raise ConfigError(f"som_lr must lie between 0 and 1, got {self.som_lr}")
        if self.variant not in VARIANTS:
            raise ConfigError(f"variant must be one of {', '.join(VARIANTS)}; got {self.variant!r}")
