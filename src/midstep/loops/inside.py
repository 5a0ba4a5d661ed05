"""A look inside one step of an autoencoder, taken only while somebody watches.

One entry of step data, `features`: one row per hidden unit, columns of one length, so that a page
shows it as a table. The model's ReLU is a function, not a module, so no hook of a module sees it.
"""

from __future__ import annotations

from typing import Protocol

import torch

from midstep.models.autoencoder import LinearAutoencoder

__all__ = ["Inside", "hidden_units"]


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
        self._activations = model.encode(images)

    @torch.no_grad()
    def push(self, store: StepDataStore) -> None:
        """Hand it to the controller."""
        store.capture_step_data("features", self.features())

    def features(self) -> dict[str, object]:
        """Per hidden unit: activation over the batch, and norms of its row of encoder weights."""
        return hidden_units(self._model, self._activations)


def hidden_units(model: LinearAutoencoder, activations: torch.Tensor) -> dict[str, object]:
    """Per hidden unit: activation over a batch, [B, D], and norms of its row of weights."""
    weight = model.encoder.weight
    return {
        "mean_activation": activations.mean(dim=0),
        "fraction_active": (activations > 0).float().mean(dim=0),
        "grad_norm": _gradient(weight).norm(dim=1),
        "weight_norm": weight.norm(dim=1),
    }


def _gradient(value: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(value) if value.grad is None else value.grad
