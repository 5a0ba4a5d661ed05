"""A look inside one step of an autoencoder, taken only while somebody watches.

Two entries of step data: `layers`, one row per parameter, and `features`, one row per hidden unit;
in both every column is a vector of the same length, so that a page shows them as a table.
"""

from __future__ import annotations

from typing import Protocol

import torch

from midstep.models.autoencoder import LinearAutoencoder
from midstep.session.layers import Layers

__all__ = ["Inside"]


class StepDataStore(Protocol):
    """Where step data goes: a controller."""

    def capture_step_data(self, key: str, data: object) -> None:
        """Keep `data` under `key` until the next step begins."""
        ...


class Inside:
    """Made between `backward` and `optimizer.step`, pushed after the step.

    Args:
        model: the autoencoder in training.
        images: the batch of this step, [B, …].
    """

    @torch.no_grad()
    def __init__(self, model: LinearAutoencoder, images: torch.Tensor) -> None:
        self._model = model
        self._layers = Layers(model.named_parameters())
        self._activations = model.encode(images)

    @torch.no_grad()
    def push(self, store: StepDataStore) -> None:
        """Hand both entries to the controller."""
        store.capture_step_data("layers", self.layers())
        store.capture_step_data("features", self.features())

    def layers(self) -> dict[str, object]:
        """Per parameter: norms of weights and gradient, and the update relative to the weights."""
        return self._layers.table()

    def features(self) -> dict[str, object]:
        """Per hidden unit: activation over the batch, and norms of its row of encoder weights."""
        weight = self._model.encoder.weight
        return {
            "mean_activation": self._activations.mean(dim=0),
            "fraction_active": (self._activations > 0).float().mean(dim=0),
            "grad_norm": _gradient(weight).norm(dim=1),
            "weight_norm": weight.norm(dim=1),
        }


def _gradient(value: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(value) if value.grad is None else value.grad
