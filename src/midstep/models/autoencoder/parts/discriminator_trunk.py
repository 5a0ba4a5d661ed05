"""Layers of a discriminator up to its last features, for samples of every kind.

The encoder `gan` and the discriminator of the adversarial loss share this class, not its weights.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import (
    GAINS,
    keep_variance,
    last_width,
    linear,
    masked_max,
    masked_mean,
)
from midstep.models.autoencoder.part_bases import Batch
from midstep.models.autoencoder.parts.conv_parts import halved_sizes
from midstep.models.autoencoder.sample_layout import TokenInput

_SLOPE = 0.2
"""Slope of the leaky ReLU for negative values, as usual in discriminators."""


class DiscriminatorTrunk(nn.Module):
    """Convolutions over images, layers over each token of an event, or layers over a vector.

    Args:
        spec: kind and sizes of a sample.
        hidden_dims: width of each layer.
        id_embedding: length of the embedding of a token's type.
        is_spectral: whether the spectral norm of each layer is kept at 1. That bounds how fast
            the discriminator's answer changes, which keeps its training stable.
    """

    def __init__(
        self,
        spec: SampleSpec,
        hidden_dims: tuple[int, ...],
        id_embedding: int,
        *,
        is_spectral: bool,
    ) -> None:
        super().__init__()
        self.spec = spec
        is_event = spec.kind == "events"
        self.tokens = TokenInput(spec, id_embedding, has_positions=True) if is_event else None
        widths = (self._input_width(), *hidden_dims)
        layers = [self._layer(*pair) for pair in pairwise(widths)]
        self.layers = nn.ModuleList(map(spectral_norm, layers) if is_spectral else layers)
        self.width = self._output_width(last_width(widths[0], hidden_dims))

    def _input_width(self) -> int:
        if self.tokens is not None:
            return self.tokens.width
        return self.spec.channels if self.spec.kind == "image" else self.spec.features

    def _layer(self, inputs: int, outputs: int) -> nn.Module:
        if self.spec.kind == "image":
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
            return keep_variance(convolution, GAINS["leaky_relu"])
        return linear(inputs, outputs, "leaky_relu")

    def _output_width(self, last: int) -> int:
        match self.spec.kind:
            case "events":
                return 2 * last + self.spec.globals
            case "image":
                height, width = halved_sizes(self.spec, len(self.layers))[-1]
                return last * height * width
            case _:
                return last

    def forward(self, sample: Batch, mask: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Features after each layer; the last are [B, width].

        Args:
            sample: a batch or a reconstruction; `tokens_id` may be ids or logits.
            mask: real tokens of an event; a reconstruction has those of its batch.
        """
        if self.tokens is None or mask is None:
            values = sample["image" if self.spec.kind == "image" else "x"]
            features = self._layered(values)
            return [*features, (features or [values])[-1].flatten(1)]
        tokens = self.tokens(sample, mask)
        features = [torch.where(mask.unsqueeze(-1), each, 0) for each in self._layered(tokens)]
        last = (features or [tokens])[-1]
        pooled = [masked_mean(last, mask), masked_max(last, mask)]
        if self.spec.globals:
            pooled.append(sample["globals"].to(last.dtype))
        return [*features, torch.cat(pooled, -1)]

    def _layered(self, values: torch.Tensor) -> list[torch.Tensor]:
        features: list[torch.Tensor] = []
        for layer in self.layers:
            values = nn.functional.leaky_relu(layer(values), _SLOPE)
            features.append(values)
        return features
