"""A linear autoencoder: one matrix for the encoder, one for the decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from midstep.core.field_checks import at_least, require
from midstep.core.random_streams import RandomStream


@dataclass(frozen=True, kw_only=True)
class LinearAutoencoderConfig:
    """Sizes of a linear autoencoder."""

    inputs: int = 784
    """Values per sample, 28 × 28 for the digits."""
    hidden: int = 64
    """Features between the two layers."""
    seed: int = 0
    """Seed of the initial weights. They come from their own stream, not from a global generator."""

    def __post_init__(self) -> None:
        require(at_least("inputs", self.inputs, 1), at_least("hidden", self.hidden, 1))


class LinearAutoencoder(nn.Module):
    """Linear, ReLU, linear, sigmoid: 784-64-784 by default.

    >>> model = LinearAutoencoder(LinearAutoencoderConfig())
    >>> model(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 784])
    """

    def __init__(self, config: LinearAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        # On `meta` torch draws no weights from its global generator; ours come from their own
        # stream.
        self.encoder = nn.Linear(config.inputs, config.hidden, device="meta")
        self.decoder = nn.Linear(config.hidden, config.inputs, device="meta")
        self.to_empty(device="cpu")
        generator = RandomStream(config.seed, "autoencoder.weights").torch_generator()
        for layer in (self.encoder, self.decoder):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Features [B, hidden] of images [B, …]."""
        features: torch.Tensor = self.encoder(images.flatten(1)).relu()
        return features

    def decode(self, features: torch.Tensor) -> torch.Tensor:
        """Pixels [B, inputs] in [0, 1] from features [B, hidden]."""
        pixels: torch.Tensor = self.decoder(features).sigmoid()
        return pixels

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Reconstructed pixels [B, inputs]."""
        return self.decode(self.encode(images))
