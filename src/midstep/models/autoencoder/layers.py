"""Layers that the parts share: activations by name and stacks of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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


def activation(name: str) -> nn.Module:
    """The activation of that name.

    >>> activation("gelu")
    GELU(approximate='none')
    """
    require(one_of("activation", name, ACTIVATIONS))
    return _MODULES[name]()


def hidden_layers(width: int, hidden_dims: Sequence[int], act: str) -> nn.Sequential:
    """Linear layers, each followed by the activation; without hidden layers the identity."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((width, *hidden_dims)):
        layers += [nn.Linear(inputs, outputs), activation(act)]
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
