"""Noise levels of a diffusion, and layers that know the level of their input."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import nn

from midstep.models.autoencoder.layers import activation

_FREQUENCIES = 8
"""Sines and cosines each that encode a noise level."""
_OFFSET = 0.008
"""Offset of the cosine schedule, so that the first levels are not almost free of noise."""
_LEAST_SIGNAL = 1e-4
"""Share of signal in the noisiest level; 0 would make the noise of a sample unknowable."""


def signal_levels(timesteps: int) -> torch.Tensor:
    """Share of signal after 0 to `timesteps` steps of noise (cosine schedule, Nichol 2021).

    >>> levels = signal_levels(100)
    >>> float(levels[0]), bool((levels.diff() < 0).all())
    (1.0, True)
    """
    steps = torch.arange(timesteps + 1, dtype=torch.float64) / timesteps
    cosine = torch.cos((steps + _OFFSET) / (1 + _OFFSET) * math.pi / 2).square()
    return (cosine / cosine[0]).clamp(min=_LEAST_SIGNAL).float()


def with_noise(clean: torch.Tensor, noise: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
    """A sample with noise [B, …], for a share of signal [B]. Its variance is that of unit data."""
    share = signal.view(-1, *[1] * (clean.ndim - 1))
    return share.sqrt() * clean + (1 - share).sqrt() * noise


def implied_noise(noisy: torch.Tensor, clean: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
    """The noise with which `clean` becomes `noisy`; the inverse of `with_noise`."""
    share = signal.view(-1, *[1] * (clean.ndim - 1))
    return (noisy - share.sqrt() * clean) / (1 - share).sqrt()


class NoiseEmbedding(nn.Module):
    """Sines and cosines of the share of signal [B], as features [B, width]."""

    width = 2 * _FREQUENCIES

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Features of noise levels."""
        # The angle whose cosine is the amplitude of the signal is linear in the steps.
        angle = signal.clamp(0, 1).sqrt().acos()
        factors = 2.0 ** torch.arange(_FREQUENCIES, device=signal.device)
        angles = angle.unsqueeze(-1) * factors
        return torch.cat([angles.sin(), angles.cos()], -1)


class ConditionedLayer(nn.Module):
    """A linear layer whose normalised output is scaled and shifted by a condition [B, …]."""

    def __init__(self, inputs: int, outputs: int, condition: int, act: str) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.norm = nn.LayerNorm(outputs)
        self.condition = nn.Linear(condition, 2 * outputs)
        self.act = activation(act)

    def forward(self, values: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Features [B, outputs]."""
        scale, shift = self.condition(condition).chunk(2, -1)
        features: torch.Tensor = self.act(self.norm(self.linear(values)) * (1 + scale) + shift)
        return features


class ConditionedStack(nn.Module):
    """Conditioned layers, one for each width."""

    def __init__(self, inputs: int, hidden_dims: tuple[int, ...], condition: int, act: str) -> None:
        super().__init__()
        widths = pairwise((inputs, *hidden_dims))
        self.layers = nn.ModuleList(ConditionedLayer(*width, condition, act) for width in widths)

    def forward(self, values: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Features after all layers."""
        for layer in self.layers:
            values = layer(values, condition)
        return values
