"""`Autoencoder`: an encoder, a latent space and a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from midstep.models.autoencoder.part_bases import Batch, Decoder, Encoder, LatentOutput, LatentSpace


@dataclass(frozen=True, kw_only=True)
class AutoencoderOutput:
    """What an autoencoder gives for a batch."""

    reconstruction: Mapping[str, torch.Tensor]
    """Tensors by the names of the batch; `tokens_id` holds logits [B, n_tokens, num_types]."""
    latent: torch.Tensor
    """The encoder's output [B, latent_dim]."""
    quantized: torch.Tensor
    """What the decoder saw [B, latent_dim]; the latent vectors themselves without a codebook."""
    codes: torch.Tensor | None
    """Indices into the codebook [B] or [B, quantizers], or None."""
    losses: Mapping[str, torch.Tensor]
    """Extra terms of the loss by name, already weighted, such as `commitment`."""
    signal: torch.Tensor | None = None
    """In training with the decoder `diffusion`: share of signal in the noisy samples [B]."""


class Autoencoder(nn.Module):
    """An encoder, a latent space and a decoder.

    Args:
        encoder: from a batch to latent vectors.
        latent_space: from latent vectors to what the decoder sees.
        decoder: from there to samples.
    """

    def __init__(self, encoder: Encoder, latent_space: LatentSpace, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.latent_space, self.decoder = encoder, latent_space, decoder

    def forward(self, batch: Batch, generator: torch.Generator | None = None) -> AutoencoderOutput:
        """Reconstruct a batch.

        Args:
            batch: tensors by name, as `SampleSpec` describes them.
            generator: source of random numbers for parts that draw some; torch's own by default.
        """
        latent = self.encode(batch, generator)
        between: LatentOutput = self.latent_space(latent)
        decoded = self.decoder.reconstruct(between.quantized, batch, generator)
        return AutoencoderOutput(
            reconstruction=decoded.reconstruction,
            latent=latent,
            quantized=between.quantized,
            codes=between.codes,
            losses={**between.losses, **decoded.losses},
            signal=decoded.signal,
        )

    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        """Latent vectors [B, latent_dim], before the latent space."""
        latent: torch.Tensor = self.encoder(batch, generator)
        return latent

    def decode(
        self, latent: torch.Tensor, generator: torch.Generator | None = None
    ) -> dict[str, torch.Tensor]:
        """Samples of latent vectors, which pass through the latent space first."""
        between: LatentOutput = self.latent_space(latent)
        sample: dict[str, torch.Tensor] = self.decoder(between.quantized, generator)
        return sample
