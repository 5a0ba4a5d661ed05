"""The loop `diffusion_ae`: an encoder, and a diffusion decoder conditioned on its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.loops.composed import ae
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.models.autoencoder.denoiser_loss import diffusion_loss

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.composed.loop_parts import Batch, LoopParts
    from midstep.loops.config.train_config import TrainConfig


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the diffusion autoencoder; returns `best_val_loss`, `test_loss` and more."""
    return train_loop(as_composed(cfg, loop="diffusion_ae"), controller)


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """The autoencoder of the loop `ae`, whose decoder is a denoiser."""
    decoder = config.phase1.decoder.name
    if decoder != "diffusion":
        raise ConfigError(
            f"loop=diffusion_ae needs phase1/decoder=diffusion, got {decoder}; use loop=ae for it"
        )
    parts, beta = ae.build(config, data), config.phase1.trainer.globals_beta

    def step(model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        output = model(batch)
        terms = diffusion_loss(output, batch, data.spec, globals_beta=beta)
        return {**terms, **output.losses, "loss": terms["loss"] + sum(output.losses.values())}

    return replace(
        parts,
        training_step=step,
        validation_step=step,
        families=(*parts.families, "diffusion"),
    )
