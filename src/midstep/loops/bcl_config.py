"""Settings of the recipe `bcl`; they can be shown without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from midstep.core.errors import ConfigError
from midstep.loops.demo_config import MAX_SEED, MAX_STEPS, DataName, DemoConfig
from midstep.loops.settings import bounded

if TYPE_CHECKING:
    from midstep.models.competitive import BCLConfig

__all__ = ["CONDITIONS", "BclConfig", "Condition"]

Condition = Literal["novelty", "control", "neighborhood", "rescue", "balance"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)


@dataclass(frozen=True, kw_only=True)
class BclConfig:
    """Settings of the recipe.

    >>> BclConfig(condition="rescue").competition.variant
    'rescue'
    """

    condition: Condition = "novelty"
    """What is attached to the encoder; control attaches nothing."""
    steps: int = bounded(25_000, minimum=1, maximum=MAX_STEPS)
    """Optimizer steps in all."""
    batch_size: int = bounded(128, minimum=1)
    """Digits per step; the last batch of an epoch may be smaller."""
    hidden: int = bounded(64, minimum=1)
    """Features between encoder and decoder."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    seed: int = bounded(0, minimum=0, maximum=MAX_SEED)
    """Of the initial weights and of the order; each has a stream of its own."""
    neighborhood_k: int = bounded(8, minimum=1)
    """Rivals of a feature."""
    temperature: float = 5.0
    """How sharply a margin in strength becomes a win."""
    som_lr: float = 0.005
    """Share of the way to its target that a feature is pulled at each step."""
    recompute_every: int = bounded(50, minimum=1)
    """Steps between two looks for nearest neighbours."""
    rescue_k: int = bounded(5, minimum=1)
    """Inputs that a losing feature is pulled to (condition rescue)."""
    data: DataName = "digits"
    """5,000 digits, or mnist: 70,000, where they were fetched."""
    health_every: int = bounded(500, minimum=1)
    """Steps between two examinations of all features."""

    def __post_init__(self) -> None:
        if self.condition not in CONDITIONS:
            raise ConfigError(
                f"condition must be one of {', '.join(CONDITIONS)}; got {self.condition!r}"
            )
        if self.health_every < 1:
            raise ConfigError(f"health_every must be at least 1, got {self.health_every}")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ConfigError(f"lr must be above 0, got {self.lr}")
        _ = self.training, self.competition  # these check the rest

    @property
    def competition(self) -> BCLConfig:
        """How the features compete; under control only the yardstick of their health."""
        from midstep.models.competitive import BCLConfig

        return BCLConfig(
            neighborhood_k=self.neighborhood_k,
            temperature=self.temperature,
            som_lr=self.som_lr,
            recompute_every=self.recompute_every,
            rescue_k=self.rescue_k,
            variant="novelty" if self.condition == "control" else self.condition,
        )

    @property
    def training(self) -> DemoConfig:
        """What it shares with every training of this autoencoder."""
        return DemoConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.lr,
            hidden=self.hidden,
            seed=self.seed,
            data=self.data,
        )
