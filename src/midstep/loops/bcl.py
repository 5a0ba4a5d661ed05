"""The recipe `bcl`: the linear autoencoder on digits, with competing features or without.

Four conditions that differ in nothing but what is attached to the encoder: control (nothing),
neighborhood (a gate on the gradient), novelty and rescue (a gate and a pull).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.loops.demo import Demo, DemoConfig, DemoResult
from midstep.loops.feature_health import FeatureHealth, HealthCheck
from midstep.loops.inside import Inside
from midstep.models.competitive import BCL, BCLConfig

if TYPE_CHECKING:
    from midstep.data.sources.digits import Digits
    from midstep.session import Run

__all__ = ["CONDITIONS", "BclConfig", "BclResult", "BclTraining", "Condition", "WeightChange"]

Condition = Literal["novelty", "control", "neighborhood", "rescue"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
SOURCE = "encoder.weight"


@dataclass(frozen=True, kw_only=True)
class BclConfig:
    """Settings of the recipe.

    >>> BclConfig(condition="rescue").competition.variant
    'rescue'
    """

    condition: Condition = "novelty"
    """What is attached to the encoder; control attaches nothing."""
    steps: int = 25_000
    """Optimizer steps in all."""
    batch_size: int = 128
    """Digits per step; the last batch of an epoch may be smaller."""
    hidden: int = 64
    """Features between encoder and decoder."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    seed: int = 0
    """Of the initial weights and of the order; each has a stream of its own."""
    neighborhood_k: int = 8
    """Rivals of a feature."""
    temperature: float = 5.0
    """How sharply a margin in strength becomes a win."""
    som_lr: float = 0.005
    """Share of the way to its target that a feature is pulled at each step."""
    recompute_every: int = 50
    """Steps between two looks for nearest neighbours."""
    rescue_k: int = 5
    """Inputs that a losing feature is pulled to (condition rescue)."""
    health_every: int = 500
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
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightChange:
    """The encoder's weights around one step; its pull is `som_delta` of the same step's data."""

    step: int
    """Finished steps after it, as in the step data."""
    before: torch.Tensor
    """Before the backward pass, so before the pull as well, [D, I]."""
    after: torch.Tensor
    """After the optimizer's step, [D, I]."""

    @property
    def combined(self) -> torch.Tensor:
        """All that this step did to the weights."""
        return self.after - self.before


@dataclass(frozen=True, kw_only=True)
class BclResult(DemoResult):
    """How a training ended."""

    condition: Condition
    """Which of the four it was."""
    health: FeatureHealth
    """The features at the end."""


class BclTraining(Demo):
    """Model, optimizer, data and competition of one run.

    >>> training = BclTraining(BclConfig(steps=3))
    >>> training.bcl.describe()["variant"]
    'novelty'
    """

    def __init__(self, config: BclConfig) -> None:
        super().__init__(config.training)
        self.recipe = config
        gated = config.condition != "control"
        self.bcl = BCL(self.model.encoder, config.competition) if gated else None
        self.last_change: WeightChange | None = None
        """Of the last step that somebody wanted to see; whole tensors of its own, never changed,
        so any thread may read it."""
        self._check = HealthCheck(
            self.model, self.validation.images, config.competition, gated=gated
        )
        self._fault_told = False

    @property
    def settings(self) -> dict[str, Any]:
        """What the run's header records."""
        return {"recipe": "bcl", **asdict(self.recipe)}

    def train(self, run: Run) -> BclResult:
        """Train to the last step, or until the run is stopped."""
        run.controller.add_source(SOURCE, lambda: self.model.encoder.weight, default=True)
        result = super().train(run)
        return BclResult(
            **asdict(result),
            condition=self.recipe.condition,
            health=self._check.examine(result.steps),
        )

    def _step(self, run: Run, batch: Digits, index: int) -> float:
        """One optimizer step up to its boundary; gives its loss."""
        control = run.controller
        wanted = control.wants_data
        before = self.model.encoder.weight.detach().clone() if wanted else None
        if self.bcl is not None:
            self.bcl.wants_tensors = wanted
        losses = self.gradients(batch)
        loss = losses.mean()
        control.capture_batch(
            batch.images, loss, index, labels=batch.labels, sample_ids=batch.ids, losses=losses
        )
        run.log(grad_norm=torch.nn.utils.get_total_norm(self._gradients()))
        inside = Inside(self.model, batch.images) if wanted and self.bcl is None else None
        self.optimizer.step()
        if inside is not None:
            inside.push(control)
        self._show(run)
        if before is not None:
            after = self.model.encoder.weight.detach().clone()
            self.last_change = WeightChange(step=index + 1, before=before, after=after)
        if (index + 1) % self.recipe.health_every == 0:
            self._record_health(run, index + 1)
        return loss.item()

    def _show(self, run: Run) -> None:
        """Push what the competition did, while somebody wants to see it."""
        if self.bcl is None:
            return
        if self.bcl.fault is not None and not self._fault_told:
            self._fault_told = True
            run.event(
                Moment.INTERVENTION, who="system", kind="hook_off", hook="bcl", why=self.bcl.fault
            )
        if not run.controller.wants_data:
            return
        for key, data in (
            ("bcl_metrics", self.bcl.get_step_metrics()),
            ("bcl_tensors", self.bcl.last_tensors()),
        ):
            if data:  # empty after a batch that was left alone
                run.controller.capture_step_data(key, data)

    def _record_health(self, run: Run, step: int) -> None:
        found = self._check.examine(step)
        run.log(**found.metrics)
        run.event(Moment.STEP, **found.as_fact())
