"""Latent spaces `fsq` and `residual_vq`, from the library vector-quantize-pytorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

from midstep.core.errors import MissingExtraError
from midstep.models.autoencoder.latent.codebook_usage import CodebookUsage
from midstep.models.autoencoder.part_bases import LatentOutput, LatentSpace
from midstep.models.autoencoder.part_configs import LatentSpaceConfig

if TYPE_CHECKING:
    import torch

_LEVELS = range(3, 10)
"""Values that one dimension of `fsq` may take. Mentzer et al. 2023 use 5 to 8."""
_DEAD_BELOW = 0.02
"""Moving average of the uses of a code per step below which `residual_vq` replaces it. With 512
codes and batches of 128 an average code has 0.25."""


def _library(name: str) -> Any:
    """A class of vector-quantize-pytorch."""
    try:
        import vector_quantize_pytorch
        from loguru import logger
    except ImportError:
        raise MissingExtraError.for_library("vector-quantize-pytorch", "runs") from None
    # It warns once per codebook that the first batch has fewer samples than codes. The codes
    # without a sample are replaced, so there is nothing to do about it.
    logger.disable(vector_quantize_pytorch.__name__)
    return getattr(vector_quantize_pytorch, name)


def scalar_levels(codebook_size: int) -> tuple[int, ...]:
    """Levels per dimension whose product is nearest to a codebook size, largest first.

    >>> scalar_levels(512), scalar_levels(1000), scalar_levels(16)
    ((8, 8, 8), (8, 5, 5, 5), (4, 4))
    """
    most = max(1, math.ceil(math.log(codebook_size, min(_LEVELS))))
    candidates = (
        levels[::-1]
        for dimensions in range(1, most + 1)
        for levels in combinations_with_replacement(_LEVELS, dimensions)
    )
    return min(
        candidates,
        key=lambda levels: (
            abs(math.prod(levels) - codebook_size),
            abs(max(levels) - 8),
            len(levels),
        ),
    )


class FiniteScalarQuantizer(LatentSpace):
    """Rounds each of a few dimensions to few levels. There is no codebook to learn or to lose."""

    def __init__(self, cfg: LatentSpaceConfig) -> None:
        levels = scalar_levels(cfg.codebook_size)
        super().__init__(CodebookUsage(math.prod(levels)))
        self.quantizer = _library("FSQ")(levels=list(levels), dim=cfg.latent_dim)

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """The rounded latent vectors and the index of their combination of levels."""
        quantized, codes = self.quantizer(latent.unsqueeze(1))
        return _counted(self, quantized.squeeze(1), codes.squeeze(1), {})


class ResidualQuantizer(LatentSpace):
    """Several codebooks; each quantizes what the ones before it left."""

    def __init__(self, cfg: LatentSpaceConfig) -> None:
        super().__init__(CodebookUsage(cfg.codebook_size, cfg.quantizers))
        self.quantizer = _library("ResidualVQ")(
            dim=cfg.latent_dim,
            num_quantizers=cfg.quantizers,
            codebook_size=cfg.codebook_size,
            decay=cfg.decay,
            commitment_weight=cfg.beta,
            kmeans_init=True,
            threshold_ema_dead_code=_DEAD_BELOW,
        )

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """The sum of the chosen codes, their indices [B, quantizers] and the commitment loss."""
        quantized, codes, losses = self.quantizer(latent.unsqueeze(1))
        commitment = {"commitment": losses.sum()}
        return _counted(self, quantized.squeeze(1), codes.squeeze(1), commitment)


def _counted(
    space: LatentSpace,
    quantized: torch.Tensor,
    codes: torch.Tensor,
    losses: Mapping[str, torch.Tensor],
) -> LatentOutput:
    """The output of a latent space, whose codes are counted in training."""
    if space.training and space.usage is not None:
        space.usage.add_codes(codes.detach())
    return LatentOutput(quantized=quantized, codes=codes.long(), losses=losses)
