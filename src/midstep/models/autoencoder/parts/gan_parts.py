"""Encoder `gan`, the trunk of a discriminator, and decoder `gan`, a generator with noise input."""

from __future__ import annotations

import torch

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import hidden_layers, last_width, linear
from midstep.models.autoencoder.part_bases import Batch, Decoder, Encoder
from midstep.models.autoencoder.part_configs import DecoderConfig, EncoderConfig
from midstep.models.autoencoder.parts.discriminator_trunk import DiscriminatorTrunk
from midstep.models.autoencoder.parts.random_draws import normal_like
from midstep.models.autoencoder.sample_layout import SampleHead, real_tokens


class GanEncoder(Encoder):
    """The trunk of a discriminator with a linear layer to the latent vector."""

    def __init__(self, cfg: EncoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.trunk = DiscriminatorTrunk(spec, cfg.hidden_dims, cfg.id_embedding, is_spectral=False)
        self.latent = linear(self.trunk.width, latent_dim)

    def features(self, sample: Batch, mask: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Features after each layer, for feature matching; `sample` may be a reconstruction."""
        features: list[torch.Tensor] = self.trunk(sample, mask)
        return features

    def forward(
        self,
        batch: Batch,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> torch.Tensor:
        """Latent vectors [B, latent_dim]."""
        mask = real_tokens(batch) if self.trunk.spec.kind == "events" else None
        latent: torch.Tensor = self.latent(self.features(batch, mask)[-1])
        return latent


class GanDecoder(Decoder):
    """A generator: linear layers over the latent vector and noise of `noise_dim` values."""

    def __init__(self, cfg: DecoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.noise_dim = cfg.noise_dim
        inputs = latent_dim + cfg.noise_dim
        self.hidden = hidden_layers(inputs, cfg.hidden_dims, cfg.activation)
        width = last_width(inputs, cfg.hidden_dims)
        self.head = SampleHead(width, latent_dim, spec, cfg.activation)

    def forward(
        self, latent: torch.Tensor, generator: torch.Generator | None = None
    ) -> dict[str, torch.Tensor]:
        """A sample for each latent vector; another one for other noise."""
        noise = normal_like(latent.new_empty(len(latent), self.noise_dim), generator)
        features = self.hidden(torch.cat([latent, noise.to(latent.dtype)], -1))
        sample: dict[str, torch.Tensor] = self.head(features, latent)
        return sample
