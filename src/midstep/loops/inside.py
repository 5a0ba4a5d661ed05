"""A look inside one step of an autoencoder, taken only while somebody watches.

One row per hidden unit, columns of one length, so that a page shows it as a table. The model's ReLU
is a function, not a module, so no hook of a module sees it. Who reads the columns computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional

from midstep.control.later import Later

if TYPE_CHECKING:
    from midstep.models.autoencoder import LinearAutoencoder

__all__ = ["hidden_units"]

Measure = Callable[[Tensor, Tensor], Mapping[str, Tensor]]
"""Columns from weights [D, I] and activations before the ReLU [B, D]."""


def hidden_units(model: LinearAutoencoder, images: Tensor, further: Measure | None = None) -> Later:
    """Per hidden unit: activation over a batch, norms of its row of weights, and further columns.

    Args:
        model: as it stands behind the step; it is only read.
        images: the batch, [B, …], which nobody changes afterwards: it is held, not cloned.
        further: gives columns that come first.
    """
    encoder = model.encoder
    weight, gradient = encoder.weight.detach(), encoder.weight.grad
    return Later(
        partial(_measured, images.detach(), further),
        weight=weight,
        bias=encoder.bias.detach(),
        grad_norm=weight.new_zeros(len(weight)) if gradient is None else gradient.norm(dim=1),
    )


def _measured(
    images: Tensor, further: Measure | None, weight: Tensor, bias: Tensor, grad_norm: Tensor
) -> dict[str, Tensor]:
    before = functional.linear(images.flatten(1), weight, bias)
    active = before.relu()
    return {
        **({} if further is None else further(weight, before)),
        "mean_activation": active.mean(dim=0),
        "fraction_active": (active > 0).float().mean(dim=0),
        "grad_norm": grad_norm,
        "weight_norm": weight.norm(dim=1),
    }
