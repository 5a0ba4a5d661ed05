"""A small classifier: linear layers over all values of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.classifier_config import ClassifierConfig

Batch = Mapping[str, torch.Tensor]


class Classifier(nn.Module):
    """Linear layers with ReLU from the values of a sample to one number per class.

    >>> spec = SampleSpec(kind="vector", features=3, classes=2)
    >>> Classifier(spec, ClassifierConfig())({"x": torch.zeros(5, 3)}).shape
    torch.Size([5, 2])

    Args:
        spec: what a sample is; it must have classes.
        config: width of the layers, and dropout.
    """

    def __init__(self, spec: SampleSpec, config: ClassifierConfig) -> None:
        super().__init__()
        widths = (_inputs(spec), *config.hidden_dims)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            if config.dropout:
                layers.append(nn.Dropout(config.dropout))
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], spec.classes))

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [B, classes]."""
        logits: torch.Tensor = self.layers(_values(batch))
        return logits


def _values(batch: Batch) -> torch.Tensor:
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
