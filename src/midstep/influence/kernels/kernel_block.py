"""The result: blocks of the kernel, the predicted change with its terms, norms and coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.kernels.planner import CostPlan


@dataclass(frozen=True, kw_only=True)
class DeltaTerms:
    """The parts of Δ log π, each [N] and in nats."""

    kernel: Tensor
    """η · rate · c Σ_j K_ij w_j: what this batch did."""
    momentum: Tensor
    """What earlier batches still do."""
    decay: Tensor
    """What weight decay does."""

    def total(self) -> Tensor:
        """Their sum."""
        return self.kernel + self.momentum + self.decay

    def scaled(self, factor: float) -> DeltaTerms:
        """Each times a factor."""
        return DeltaTerms(
            kernel=self.kernel * factor, momentum=self.momentum * factor, decay=self.decay * factor
        )


@dataclass(frozen=True, kw_only=True)
class KernelBlock:
    """Kernel entries between E and U, and what they predict. Rows follow the batches' own order."""

    k_eu: Tensor | None
    """[nE, nU]."""
    k_uu: Tensor | None
    """[nU, nU], symmetric."""
    delta_logpi: Tensor | None
    """[nE] predicted change of log π, all terms; None without E or when not wanted."""
    terms: DeltaTerms | None
    """Of `delta_logpi`; None when only the sum was computed."""
    delta_logpi_u: Tensor | None
    """[nU] the same for U's own sequences, where the algorithm passes them by."""
    terms_u: DeltaTerms | None
    token_delta: Tensor | None
    """[nE, T] change of each response token (algorithm jvp)."""
    weights: Tensor
    """[nU] w."""
    norms_u: Tensor | None
    """[nU] sqrt(g·D·g), the norm in which cosines are taken."""
    norms_e: Tensor | None
    raw_norms_u: Tensor | None
    """[nU] |g|."""
    raw_norms_e: Tensor | None
    logpi_u: Tensor
    """[nU] log π before the step."""
    logpi_e: Tensor | None
    coverage: Mapping[str, float]
    """Share of the trace of K(U,U) that each group of parameters holds."""
    slow_parameters: Sequence[str]
    """Computed by autograd a sequence at a time, because their module is of no known form."""
    unused_parameters: Sequence[str]
    """Without any part in the log-probability."""
    preconditioner: str
    lr: float
    """η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ)."""
    clip_factor: float
    gradient_norm: float
    """|G| before clipping."""
    plan: CostPlan

    def cosines(self) -> Tensor:
        """[nE, nU] (or [nU, nU] without E) cosines in the metric D."""
        if self.k_eu is not None and self.norms_e is not None and self.norms_u is not None:
            return self.k_eu / (self.norms_e[:, None] * self.norms_u).clamp_min(1e-300)
        if self.k_uu is not None and self.norms_u is not None:
            return self.k_uu / (self.norms_u[:, None] * self.norms_u).clamp_min(1e-300)
        raise ConfigError("cosines need a block of K: ask for it with want=('EU', …)")

    def contributions(self) -> Tensor:
        """[nE, nU] what each sequence of U adds to each Δ log π, in nats."""
        if self.k_eu is None:
            raise ConfigError("contributions need K(E,U): ask for it with want=('EU', …)")
        factor = self.lr * self.rate * self.clip_factor
        return factor * self.k_eu * self.weights.to(self.k_eu)

    def what_if(self, weights: Tensor | Sequence[float]) -> Tensor:
        """[nE] the kernel term for other weights, without a model pass; D is held as it was."""
        if self.k_eu is None:
            raise ConfigError("what_if needs K(E,U): ask for it with want=('EU', …)")
        given = torch.as_tensor(weights, dtype=self.k_eu.dtype, device=self.k_eu.device)
        if given.shape != self.weights.shape:
            raise ConfigError(
                f"{list(given.shape)} weights were given for {len(self.weights)} sequences of U"
            )
        return self.lr * self.rate * self.clip_factor * (self.k_eu @ given)
