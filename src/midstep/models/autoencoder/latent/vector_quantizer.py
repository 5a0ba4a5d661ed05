"""Latent space `vq`: the nearest of a set of codes, learned by moving averages.

Van den Oord et al. 2017 with the moving averages of their appendix. Two additions keep the codebook
from collapsing: it starts from k-means on the first batch, and a code that no sample needs
is replaced by a latent vector of the present batch.

Shapes: N latent vectors, K codes, D values each.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from midstep.models.autoencoder.latent.codebook_usage import CodebookUsage
from midstep.models.autoencoder.part_bases import LatentOutput, LatentSpace
from midstep.models.autoencoder.part_configs import LatentSpaceConfig

_KMEANS_ITERATIONS = 10
_DEAD_AFTER = 8
"""A code is dead if it was not the nearest for this many samples per code of the codebook. Under
equal use a living code is taken for dead once in e^8 = 3,000 times."""
_EPSILON = 1e-5
"""Smallest count that a code is divided by."""


def nearest_codes(latents: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """Index [N] of the nearest code of each latent vector; the first one of equals.

    >>> nearest_codes(torch.tensor([[0.9], [2.2]]), torch.tensor([[0.0], [1.0], [2.0]]))
    tensor([1, 2])
    """
    # The squared norm of the latent vector is the same for every code and is left out.
    distances = codebook.square().sum(1) - 2 * latents @ codebook.t()
    return distances.argmin(1)


class VectorQuantizer(LatentSpace):
    """A codebook with straight-through gradients.

    All state is in buffers, and random numbers come from torch's own generator in the forward
    pass. So a resumed or rewound training repeats the same bits.
    """

    codebook: torch.Tensor
    code_counts: torch.Tensor
    code_sums: torch.Tensor
    samples_since_use: torch.Tensor
    is_initialised: torch.Tensor
    usage: CodebookUsage

    def __init__(self, cfg: LatentSpaceConfig) -> None:
        size = cfg.codebook_size
        super().__init__(CodebookUsage(size))
        self.beta, self.decay = cfg.beta, cfg.decay
        self.register_buffer("codebook", torch.randn(size, cfg.latent_dim))
        self.register_buffer("code_counts", torch.ones(size))
        self.register_buffer("code_sums", self.codebook.clone())
        self.register_buffer("samples_since_use", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("is_initialised", torch.zeros((), dtype=torch.bool))

    def forward(self, latent: torch.Tensor) -> LatentOutput:
        """The nearest codes with their indices and the commitment loss."""
        # Nearest codes in bfloat16 would be decided by rounding.
        with torch.autocast(latent.device.type, enabled=False):
            flat = latent.to(self.codebook.dtype).flatten(0, -2)
            is_first = self.training and not self.is_initialised
            if is_first:
                self._start_from_kmeans(flat.detach())
            codes = nearest_codes(flat.detach(), self.codebook)
            nearest = self.codebook[codes]
            commitment = self.beta * F.mse_loss(flat, nearest)
            if self.training:
                self._learn(flat.detach(), codes, is_first=is_first)
            straight_through = flat + (nearest - flat).detach()
        return LatentOutput(
            quantized=straight_through.view(latent.shape),
            codes=codes.view(latent.shape[:-1]),
            losses={"commitment": commitment},
        )

    @torch.no_grad()
    def _start_from_kmeans(self, latents: torch.Tensor) -> None:
        """Lloyd's algorithm on the first batch. Codes without a latent vector count as dead."""
        latents = latents[latents.isfinite().all(1)]
        if not len(latents):
            return
        size = len(self.codebook)
        order = torch.randperm(len(latents), device=latents.device)
        self.codebook.copy_(latents[order.repeat(-(-size // len(latents)))[:size]])
        for _ in range(_KMEANS_ITERATIONS):
            assignment = self._one_hot(nearest_codes(latents, self.codebook), latents)
            counts = assignment.sum(0)
            means = assignment.t() @ latents / counts.clamp(min=1).unsqueeze(1)
            self.codebook.copy_(torch.where(counts.unsqueeze(1) > 0, means, self.codebook))
        self.code_counts.copy_(counts.clamp(min=1))
        self.code_sums.copy_(self.codebook * self.code_counts.unsqueeze(1))
        self.samples_since_use.copy_(torch.where(counts > 0, 0, _DEAD_AFTER * size))
        self.is_initialised.fill_(value=True)

    def _one_hot(self, codes: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
        """Which code each latent vector chose [N, K]; no row counts that is not finite.

        A product with this matrix sums in a fixed order on a GPU too, unlike `index_add_`.
        """
        every_code = torch.arange(len(self.codebook), device=codes.device)
        is_chosen = codes.unsqueeze(1) == every_code
        return (is_chosen & latents.isfinite().all(1, keepdim=True)).to(latents.dtype)

    @torch.no_grad()
    def _learn(self, latents: torch.Tensor, codes: torch.Tensor, *, is_first: bool) -> None:
        """Move each code toward the mean of the latent vectors that chose it."""
        assignment = self._one_hot(codes, latents)
        counts = assignment.sum(0)
        self.usage.add_counts(counts.long().unsqueeze(0))
        if is_first:  # k-means has used this batch; a dead code would get a copy of a living one
            return
        # A session skips a step whose loss is not finite. The codebook must stay unharmed too.
        finite = latents.nan_to_num(0, 0, 0)
        self.code_counts.lerp_(counts, 1 - self.decay)
        self.code_sums.lerp_(assignment.t() @ finite, 1 - self.decay)
        moved = self.code_sums / self.code_counts.clamp(min=_EPSILON).unsqueeze(1)
        is_known = (self.code_counts > _EPSILON).unsqueeze(1)
        self.codebook.copy_(torch.where(is_known, moved, self.codebook))
        self.samples_since_use.copy_(
            torch.where(counts > 0, 0, self.samples_since_use + len(latents))
        )
        self._replace_dead_codes(latents)

    def _replace_dead_codes(self, latents: torch.Tensor) -> None:
        """Put dead codes on latent vectors of the batch, each on another one."""
        is_dead = self.samples_since_use >= _DEAD_AFTER * len(self.codebook)
        order = torch.randperm(len(latents), device=latents.device)
        rank = is_dead.long().cumsum(0) - 1
        chosen = latents[order[rank.clamp(0, len(latents) - 1)]]
        is_replaced = is_dead & (rank < len(latents)) & chosen.isfinite().all(1)
        # As if the code had been chosen once in this step: the next latent vectors move it fast.
        weight = 1 - self.decay if self.decay < 1 else 1.0
        self._overwrite(is_replaced, chosen, weight)

    def _overwrite(self, where: torch.Tensor, codes: torch.Tensor, weight: float) -> None:
        """Replace codes by `codes` where the mask says so, with a small count."""
        rows = where.unsqueeze(1)
        self.codebook.copy_(torch.where(rows, codes, self.codebook))
        self.code_sums.copy_(torch.where(rows, codes * weight, self.code_sums))
        self.code_counts.copy_(torch.where(where, weight, self.code_counts))
        self.samples_since_use.copy_(torch.where(where, 0, self.samples_since_use))
