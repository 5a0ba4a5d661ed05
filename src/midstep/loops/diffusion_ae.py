"""The loop `diffusion_ae`: an encoder, and a diffusion decoder conditioned on its output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.loops import ae
from midstep.loops.config.composed_config import as_composed
from midstep.loops.loop_training import train_loop

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig
    from midstep.loops.loop_parts import LoopParts


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the diffusion autoencoder; returns `best_val_loss`, `test_loss` and more."""
    config = as_composed(cfg)
    return train_loop(config, controller)


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """The autoencoder of the loop `ae`, whose decoder is a denoiser."""
    decoder = config.phase1.decoder.name
    if decoder != "diffusion":
        raise ConfigError(
            f"loop=diffusion_ae needs phase1/decoder=diffusion, got {decoder}; use loop=ae for it"
        )
    parts = ae.build(config, data)
    return replace(parts, families=(*parts.families, "diffusion"))
