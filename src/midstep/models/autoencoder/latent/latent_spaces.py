"""Latent spaces without a codebook: `none` (also called `identity`) and `linear`."""

from __future__ import annotations

import torch
from torch import nn

from midstep.models.autoencoder.part_bases import LatentOutput, LatentSpace
from midstep.models.autoencoder.part_configs import LatentSpaceConfig


class IdentityLatentSpace(LatentSpace):
    """The decoder sees the encoder's output as it is."""

    def __init__(self, cfg: LatentSpaceConfig) -> None:  # noqa: ARG002 - as every latent space
        super().__init__()

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """The latent vectors themselves."""
        return LatentOutput(quantized=latent)


class LinearLatentSpace(LatentSpace):
    """One linear map between encoder and decoder."""

    def __init__(self, cfg: LatentSpaceConfig) -> None:
        super().__init__()
        self.map = nn.Linear(cfg.latent_dim, cfg.latent_dim)

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """The mapped latent vectors."""
        return LatentOutput(quantized=self.map(latent))
