"""The loop `gan_ae`: an autoencoder whose reconstructions a discriminator judges.

Both players share one optimizer with a group of parameters each, and make one step per batch. So
clipping, accumulation, mixed precision, snapshots and rewinds work as for any other model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch

from midstep.loops.composed import ae
from midstep.loops.composed.autoencoder_facts import AutoencoderFacts
from midstep.loops.composed.loop_parts import Batch, LoopParts
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.loops.config.loop_settings import GanAeSettings
from midstep.models.autoencoder import build_from_config, training_loss
from midstep.models.autoencoder.adversarial import (
    AdversarialAutoencoder,
    Discriminator,
    discriminator_loss,
    generator_loss,
)

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the adversarial autoencoder; returns `best_val_loss`, `test_loss` and more."""
    return train_loop(as_composed(cfg, loop="gan_ae"), controller)


class AdversarialSteps:
    """The steps of both players.

    Args:
        config: the settings of the run.
        data: of the samples.
    """

    def __init__(self, config: TrainConfig, data: SourceData) -> None:
        self._spec, self._beta = data.spec, config.phase1.trainer.globals_beta
        self._settings = cast("GanAeSettings", config.loop)

    def training_step(self, model: AdversarialAutoencoder, batch: Batch) -> Mapping[str, Tensor]:
        """The sum of what both players minimise; neither gets a gradient from the other's part."""
        return self._step(model, batch, is_training=True)

    def validation_step(self, model: AdversarialAutoencoder, batch: Batch) -> Mapping[str, Tensor]:
        """The terms of both players; `loss` is that of the autoencoder, without the adversary."""
        return self._step(model, batch, is_training=False)

    def _step(
        self, model: AdversarialAutoencoder, batch: Batch, *, is_training: bool
    ) -> Mapping[str, Tensor]:
        judge, settings = model.discriminator, self._settings
        form = settings.discriminator
        output = model(batch)
        terms = training_loss(output, batch, self._spec, globals_beta=self._beta)
        deception = generator_loss(
            judge,
            output.reconstruction,
            batch,
            kind=form.kind,
            feature_weight=form.feature_weight,
        )
        judgement = discriminator_loss(judge, output.reconstruction, batch, kind=form.kind)
        loss = terms["loss"]
        if is_training:
            loss = loss + settings.adversarial_weight * deception["loss"] + judgement["loss"]
        return {
            **terms,
            "reconstruction": terms["loss"].detach(),
            "adversarial": deception["adversarial"].detach(),
            "feature_matching": deception["feature_matching"].detach(),
            "discriminator": judgement["loss"].detach(),
            "real_score": judgement["real_score"],
            "fake_score": judgement["fake_score"],
            "loss": loss,
        }


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """Both players, and one Adam with a learning rate for each."""
    settings, trainer = cast("GanAeSettings", config.loop), config.phase1.trainer
    autoencoder = build_from_config(config.phase1, data.spec)
    model = AdversarialAutoencoder(autoencoder, Discriminator(settings.discriminator, data.spec))
    steps = AdversarialSteps(config, data)
    facts = AutoencoderFacts(model, data.splits["val"], data.spec, epochs=trainer.epochs)
    return LoopParts(
        model=model,
        optimizer=torch.optim.Adam(
            [
                {"params": list(autoencoder.parameters()), "lr": trainer.lr},
                {
                    "params": list(model.discriminator.parameters()),
                    "lr": settings.discriminator_lr,
                    # As usual for adversarial training: momentum makes the two players oscillate.
                    "betas": (0.5, 0.999),
                },
            ],
            lr=trainer.lr,
        ),
        training_step=steps.training_step,
        validation_step=steps.validation_step,
        families=(*ae.plot_families(config), "adversarial"),
        begin=facts.begin,
    )
