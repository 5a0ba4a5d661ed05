"""Layers that the parts share: activations by name and stacks of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import nn

from midstep.core.field_checks import one_of, require
from midstep.models.autoencoder.part_configs import ACTIVATIONS

_MODULES: dict[str, type[nn.Module]] = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}

GAINS: dict[str, float] = {
    "gelu": 1.53,
    "leaky_relu": 1.39,
    "relu": 2**0.5,
    "silu": 1.68,
    "tanh": 1.59,
}
"""Each activation divides the root mean square of standard normal values by this."""
LayerT = TypeVar("LayerT", nn.Linear, nn.Conv2d)


def activation(name: str) -> nn.Module:
    """The activation of that name.

    >>> activation("gelu")
    GELU(approximate='none')
    """
    require(one_of("activation", name, ACTIVATIONS))
    return _MODULES[name]()


def keep_variance(layer: LayerT, gain: float = 1.0) -> LayerT:
    """Draw the weights of a layer so that its output varies as much as its input.

    The defaults of torch shrink it to a third per layer. A stack of six layers then begins with
    latent vectors that are almost equal, and learns several times more slowly.
    """
    inputs = layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=gain * inputs**-0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def linear(inputs: int, outputs: int, act: str | None = None) -> nn.Linear:
    """A linear layer that keeps the variance, also through an activation `act` after it."""
    return keep_variance(nn.Linear(inputs, outputs), 1.0 if act is None else GAINS[act])


def hidden_layers(width: int, hidden_dims: Sequence[int], act: str) -> nn.Sequential:
    """Linear layers, each followed by the activation; without hidden layers the identity."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((width, *hidden_dims)):
        layers += [linear(inputs, outputs, act), activation(act)]
    return nn.Sequential(*layers)


def last_width(width: int, hidden_dims: Sequence[int]) -> int:
    """Width of the output of `hidden_layers`.

    >>> last_width(10, ()), last_width(10, (64, 32))
    (10, 32)
    """
    return (width, *hidden_dims)[-1]


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of tokens [B, T, D] over the real ones of mask [B, T]; 0 without a real token."""
    kept = torch.where(mask.unsqueeze(-1), values, 0)
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def masked_max(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Largest value of tokens [B, T, D] over the real ones of mask [B, T]; 0 without one."""
    lowest = torch.finfo(values.dtype).min
    largest = torch.where(mask.unsqueeze(-1), values, lowest).amax(1)
    return torch.where(mask.any(1, keepdim=True), largest, 0)
