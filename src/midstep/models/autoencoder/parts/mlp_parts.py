"""Encoder and decoder `mlp`: linear layers over a sample as one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import hidden_layers, last_width, linear
from midstep.models.autoencoder.part_bases import Batch, Decoder, Encoder
from midstep.models.autoencoder.part_configs import DecoderConfig, EncoderConfig
from midstep.models.autoencoder.sample_layout import FlatInput, SampleHead

if TYPE_CHECKING:
    import torch


class MlpEncoder(Encoder):
    """Linear layers from a sample to its latent vector."""

    def __init__(self, cfg: EncoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.flat = FlatInput(spec, cfg.id_embedding)
        self.hidden = hidden_layers(self.flat.width, cfg.hidden_dims, cfg.activation)
        self.latent = linear(last_width(self.flat.width, cfg.hidden_dims), latent_dim)

    def forward(
        self,
        batch: Batch,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> torch.Tensor:
        """Latent vectors [B, latent_dim]."""
        latent: torch.Tensor = self.latent(self.hidden(self.flat(batch)))
        return latent


class MlpDecoder(Decoder):
    """Linear layers from a latent vector to a sample."""

    def __init__(self, cfg: DecoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.hidden = hidden_layers(latent_dim, cfg.hidden_dims, cfg.activation)
        width = last_width(latent_dim, cfg.hidden_dims)
        self.head = SampleHead(width, latent_dim, spec, cfg.activation)

    def forward(
        self,
        latent: torch.Tensor,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> dict[str, torch.Tensor]:
        """A sample for each latent vector."""
        sample: dict[str, torch.Tensor] = self.head(self.hidden(latent), latent)
        return sample
