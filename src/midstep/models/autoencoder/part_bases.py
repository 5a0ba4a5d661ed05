"""What encoders, decoders and latent spaces have in common: how an autoencoder calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import nn

from midstep.models.autoencoder.latent.codebook_usage import CodebookUsage

Batch: TypeAlias = Mapping[str, torch.Tensor]
"""A batch of samples by name, as `SampleSpec` describes it."""


@dataclass(frozen=True, kw_only=True)
class LatentOutput:
    """What a latent space gives for a batch of latent vectors."""

    quantized: torch.Tensor
    """What the decoder sees [B, latent_dim]."""
    codes: torch.Tensor | None = None
    """Indices into the codebook [B], or [B, quantizers] with several codebooks."""
    losses: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Extra terms of the loss by name, already weighted."""


@dataclass(frozen=True, kw_only=True)
class DecoderOutput:
    """What a decoder gives for a batch that is reconstructed."""

    reconstruction: dict[str, torch.Tensor]
    """Tensors by the names of the batch; `tokens_id` holds logits [B, n_tokens, num_types]."""
    losses: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Extra terms of the loss by name, already weighted."""
    signal: torch.Tensor | None = None
    """Share of signal in the noisy input of each sample [B], if a denoiser estimated it."""


class Encoder(nn.Module):
    """From a batch to latent vectors. Random numbers come from `generator`, or from torch's own."""

    def forward(self, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        """Latent vectors [B, latent_dim] of a batch."""
        raise NotImplementedError


class Decoder(nn.Module):
    """From latent vectors to samples. Random numbers come from `generator`, or from torch's own."""

    def forward(
        self, latent: torch.Tensor, generator: torch.Generator | None = None
    ) -> dict[str, torch.Tensor]:
        """Samples by the names of a batch; `tokens_id` holds logits."""
        raise NotImplementedError

    def reconstruct(
        self,
        latent: torch.Tensor,
        batch: Batch,  # noqa: ARG002 - for decoders that train on the sample itself
        generator: torch.Generator | None = None,
    ) -> DecoderOutput:
        """The reconstruction of `batch` with the decoder's own loss terms."""
        return DecoderOutput(reconstruction=self(latent, generator))


class LatentSpace(nn.Module):
    """Between encoder and decoder. A quantizer learns its codebook in training mode only.

    Args:
        usage: counts of the codes of the training batches; None without a codebook.
    """

    def __init__(self, usage: CodebookUsage | None = None) -> None:
        super().__init__()
        self.usage = usage

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """What the decoder sees of latent vectors [B, latent_dim]."""
        raise NotImplementedError
