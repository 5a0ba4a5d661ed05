"""Settings of the recipe `demo`. The page shows them, so this module loads no torch.

The line below each field is the text of the form on the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, bounded_field, one_of, require, within

if TYPE_CHECKING:
    from midstep.models.competitive import BCLConfig


MAX_STEPS = 100_000_000
MAX_SEED = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly: they use float64."""
DataName = Literal["digits", "mnist"]


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig:
    """Settings of the demo.

    >>> AutoencoderConfig(steps=100).batch_size
    128
    """

    steps: int = bounded_field(10_000, minimum=1, maximum=MAX_STEPS)
    """Optimizer steps in all; about half a minute on two cores."""
    batch_size: int = bounded_field(128, minimum=1)
    """Digits per step; the last batch of an epoch may be smaller."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    hidden: int = bounded_field(64, minimum=1)
    """Features between encoder and decoder."""
    seed: int = bounded_field(0, minimum=0, maximum=MAX_SEED)
    """Seed of the initial weights and of the order of samples, which are drawn independently."""
    data: DataName = "digits"
    """5,000 digits, or mnist: 70,000, where they were fetched."""

    def __post_init__(self) -> None:
        require(
            within("steps", self.steps, 1, MAX_STEPS),
            at_least("batch_size", self.batch_size, 1),
            at_least("hidden", self.hidden, 1),
            one_of("data", self.data, get_args(DataName)),
        )
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"learning_rate must be above 0, got {self.learning_rate}")


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
    steps: int = bounded_field(25_000, minimum=1, maximum=MAX_STEPS)
    """Optimizer steps in all."""
    batch_size: int = bounded_field(128, minimum=1)
    """Digits per step; the last batch of an epoch may be smaller."""
    hidden: int = bounded_field(64, minimum=1)
    """Features between encoder and decoder."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    seed: int = bounded_field(0, minimum=0, maximum=MAX_SEED)
    """Seed of the initial weights and of the order of samples, which are drawn independently."""
    neighborhood_k: int = bounded_field(8, minimum=1)
    """Rivals of a feature."""
    temperature: float = 5.0
    """How sharply a margin in strength becomes a win."""
    som_lr: float = 0.005
    """Share of the way to its target that a feature is pulled at each step."""
    recompute_every: int = bounded_field(50, minimum=1)
    """Steps between two searches for nearest neighbours."""
    rescue_k: int = bounded_field(5, minimum=1)
    """Inputs that a losing feature is pulled to (condition rescue)."""
    data: DataName = "digits"
    """5,000 digits, or mnist: 70,000, where they were fetched."""
    health_every: int = bounded_field(500, minimum=1)
    """Steps between two examinations of all features."""

    def __post_init__(self) -> None:
        require(
            one_of("condition", self.condition, CONDITIONS),
            at_least("health_every", self.health_every, 1),
        )
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ConfigError(f"lr must be above 0, got {self.lr}")
        _ = self.training, self.competition  # their constructors check the other fields

    @property
    def competition(self) -> BCLConfig:
        """How the features compete. Under control it only measures their health."""
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
    def training(self) -> AutoencoderConfig:
        """The settings of the autoencoder's training."""
        return AutoencoderConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.lr,
            hidden=self.hidden,
            seed=self.seed,
            data=self.data,
        )
