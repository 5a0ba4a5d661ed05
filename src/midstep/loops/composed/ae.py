"""The loop `ae`: an autoencoder over token events, images or vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from midstep.loops.composed.autoencoder_facts import AutoencoderFacts
from midstep.loops.composed.loop_parts import Batch, LoopParts
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.models.autoencoder import build_from_config, training_loss

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the autoencoder; returns `best_val_loss`, `test_loss`, `run_dir` and more."""
    return train_loop(as_composed(cfg, loop="ae"), controller)


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """The autoencoder that `phase1` describes, with Adam."""
    model = build_from_config(config.phase1, data.spec)
    beta = config.phase1.trainer.globals_beta

    def step(model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        return training_loss(model(batch), batch, data.spec, globals_beta=beta)

    facts = AutoencoderFacts(
        model, data.splits["val"], data.spec, epochs=config.phase1.trainer.epochs
    )
    return LoopParts(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=config.phase1.trainer.lr),
        training_step=step,
        validation_step=step,
        families=plot_families(config),
        begin=facts.begin,
    )


def plot_families(config: TrainConfig) -> tuple[str, ...]:
    """The plot families of a loop with an autoencoder."""
    with_codebook = config.phase1.latent_space.name in ("vq", "fsq", "residual_vq")
    return ("losses", "metrics", "latency", "recon", *(("codebook",) if with_codebook else ()))
