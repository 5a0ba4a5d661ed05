"""A look inside one step of an autoencoder, taken only while somebody watches.

One row per hidden unit, columns of one length, so that a page shows it as a table. The model's ReLU
is a function, not a module, so no hook of a module sees it.
"""

from __future__ import annotations

import torch

from midstep.models.autoencoder import LinearAutoencoder

__all__ = ["hidden_units"]


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
