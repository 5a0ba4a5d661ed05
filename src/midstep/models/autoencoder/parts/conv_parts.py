"""Encoder and decoder `conv`: convolutions over images of any size."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import activation, linear
from midstep.models.autoencoder.part_bases import Batch, Decoder, Encoder
from midstep.models.autoencoder.part_configs import DecoderConfig, EncoderConfig

_MOST_GROUPS = 8
"""Groups of a group norm, if they divide the channels."""


def halved_sizes(spec: SampleSpec, times: int) -> list[tuple[int, int]]:
    """Rows and columns of an image before and after each convolution of stride 2.

    >>> halved_sizes(SampleSpec(kind="image", channels=1, height=9, width=4), 2)
    [(9, 4), (5, 2), (3, 1)]
    """
    sizes = [(spec.height, spec.width)]
    for _ in range(times):
        height, width = sizes[-1]
        sizes.append(((height + 1) // 2, (width + 1) // 2))
    return sizes


def _group_norm(channels: int) -> nn.GroupNorm:
    """Unlike a batch norm it does not depend on the other samples of the batch."""
    return nn.GroupNorm(math.gcd(_MOST_GROUPS, channels), channels)


class ConvEncoder(Encoder):
    """Convolutions that halve the image, one for each entry of `hidden_dims`."""

    def __init__(self, cfg: EncoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((spec.channels, *cfg.hidden_dims)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride=2, padding=1),
                _group_norm(outputs),
                activation(cfg.activation),
            ]
        self.convolutions = nn.Sequential(*layers)
        height, width = halved_sizes(spec, len(cfg.hidden_dims))[-1]
        channels = (spec.channels, *cfg.hidden_dims)[-1]
        self.latent = linear(channels * height * width, latent_dim)

    def forward(
        self,
        batch: Batch,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> torch.Tensor:
        """Latent vectors [B, latent_dim]."""
        latent: torch.Tensor = self.latent(self.convolutions(batch["image"]).flatten(1))
        return latent


class ConvDecoder(Decoder):
    """Convolutions that double the image, one for each entry of `hidden_dims`."""

    def __init__(self, cfg: DecoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        *larger, smallest = halved_sizes(spec, len(cfg.hidden_dims))
        self.sizes = larger[::-1]
        self.start_shape = ((*cfg.hidden_dims, spec.channels)[0], *smallest)
        self.start = linear(latent_dim, math.prod(self.start_shape))
        channels = (*cfg.hidden_dims, spec.channels)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, padding=1) for inputs, outputs in pairwise(channels)
        )
        self.norms = nn.ModuleList(_group_norm(each) for each in cfg.hidden_dims)
        self.act = activation(cfg.activation)

    def forward(
        self,
        latent: torch.Tensor,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> dict[str, torch.Tensor]:
        """An image for each latent vector."""
        image = self.start(latent).unflatten(-1, self.start_shape)
        for size, norm, convolution in zip(self.sizes, self.norms, self.convolutions, strict=True):
            # The exact sizes of the encoder: doubling would miss the odd ones.
            image = convolution(F.interpolate(self.act(norm(image)), size=size))
        return {"image": image}
