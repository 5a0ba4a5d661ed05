"""The loop `mlp`: a small classifier, the five-minute example."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from midstep.core.errors import ConfigError
from midstep.loops.composed.loop_parts import Batch, LoopParts
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.loops.config.loop_settings import MlpSettings

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.core.sample_spec import SampleSpec
    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train the classifier; returns `best_val_loss`, `test_loss`, `run_dir` and more."""
    config = as_composed(cfg)
    return train_loop(config, controller)


class Classifier(nn.Module):
    """Linear layers with ReLU from the values of a sample to one number per class.

    Args:
        spec: what a sample is; it must have classes.
        settings: width of the layers, and dropout.
    """

    def __init__(self, spec: SampleSpec, settings: MlpSettings) -> None:
        super().__init__()
        widths = (_inputs(spec), *settings.hidden_dims)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            if settings.dropout:
                layers.append(nn.Dropout(settings.dropout))
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], spec.classes))

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, classes]."""
        logits: Tensor = self.layers(_values(batch))
        return logits


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


def _values(batch: Batch) -> Tensor:
    """All values of a sample in one row, [B, I]."""
    if "image" in batch:
        return batch["image"].flatten(1)
    if "x" in batch:
        return batch["x"].float()
    parts = [batch["tokens_cont"].flatten(1), batch["tokens_id"].float()]
    return torch.cat([*parts, *([batch["globals"]] if "globals" in batch else [])], dim=1)


def _inputs(spec: SampleSpec) -> int:
    if spec.kind == "image":
        return spec.channels * spec.height * spec.width
    if spec.kind == "vector":
        return spec.features
    return spec.n_tokens * (spec.cont_dim + 1) + spec.globals
