"""The loop `mlp`: a small classifier, the five-minute example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from midstep.core.errors import ConfigError
from midstep.loops.composed.loop_parts import Batch, LoopParts
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.loops.config.loop_settings import MlpSettings
from midstep.models.classifier import Classifier

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the classifier; returns `best_val_loss`, `test_loss`, `run_dir` and more."""
    return train_loop(as_composed(cfg, loop="mlp"), controller)


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """The classifier with Adam."""
    if data.spec.classes < 2:
        raise ConfigError(
            f"loop=mlp classifies, but data={config.data.name} has no classes; "
            "use data=digits, or another loop"
        )
    model = Classifier(data.spec, cast("MlpSettings", config.loop))
    return LoopParts(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=config.phase1.trainer.lr),
        training_step=step,
        validation_step=step,
    )


def step(model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
    """Cross entropy and accuracy of a batch."""
    logits = model(batch)
    hits = (logits.detach().argmax(dim=1) == batch["label"]).float().mean()
    return {"loss": functional.cross_entropy(logits, batch["label"].long()), "accuracy": hits}
