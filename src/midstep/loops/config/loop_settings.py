"""The own settings of each loop, as the group `loop` of `conf` fills them. It loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from midstep.core.field_checks import bounded_field, one_of, require, within
from midstep.loops.bcl_config import CONDITIONS, MAX_STEPS, Condition
from midstep.models.autoencoder.part_configs import DiscriminatorConfig
from midstep.models.classifier_config import ClassifierConfig


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What every loop has: its name."""

    name: str = "ae"
    """Name of a registered loop."""


@dataclass(frozen=True, kw_only=True)
class AeSettings(LoopSettings):
    """Settings of the loop `ae`: the parts of `phase1` are all it needs."""


@dataclass(frozen=True, kw_only=True)
class GanAeSettings(LoopSettings):
    """Settings of the loop `gan_ae`."""

    name: str = "gan_ae"
    """Name of the loop."""
    adversarial_weight: float = bounded_field(0.05, minimum=0)
    """Weight of the adversarial loss, relative to the reconstruction."""
    discriminator_lr: float = 4e-4
    """Learning rate of the discriminator."""
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    """The discriminator and its loss."""

    def __post_init__(self) -> None:
        require(
            within("adversarial_weight", self.adversarial_weight, 0, 1_000),
            within("discriminator_lr", self.discriminator_lr, 0, 1),
        )


@dataclass(frozen=True, kw_only=True)
class DiffusionAeSettings(LoopSettings):
    """Settings of the loop `diffusion_ae`."""

    name: str = "diffusion_ae"
    """Name of the loop."""


@dataclass(frozen=True, kw_only=True)
class MlpSettings(LoopSettings, ClassifierConfig):
    """Settings of the loop `mlp`, a small classifier: those of its model.

    >>> MlpSettings().hidden_dims
    (64,)
    """

    name: str = "mlp"
    """Name of the loop."""


@dataclass(frozen=True, kw_only=True)
class BclSettings(LoopSettings):
    """Settings of the loop `bcl`: competing features of a linear autoencoder."""

    name: str = "bcl"
    """Name of the loop."""
    condition: Condition = "novelty"
    """What is attached to the encoder; control attaches nothing."""
    steps: int | None = None
    """Optimizer steps in all. If left out, the epochs of the trainer."""
    hidden: int = bounded_field(64, minimum=1)
    """Features between encoder and decoder."""
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
    health_every: int = bounded_field(500, minimum=1)
    """Steps between two examinations of all features."""

    def __post_init__(self) -> None:
        require(
            one_of("condition", self.condition, CONDITIONS),
            None
            if self.steps is None
            else within("steps", self.steps, 1, MAX_STEPS, kind="a whole number"),
        )
