"""The result of a kernel computation: K, the predicted change with its terms, norms, coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """η · rate · c Σ_j K_ij w_j: the change by this batch."""
    momentum: Tensor
    """The change by momentum of earlier batches."""
    decay: Tensor
    """The change by weight decay."""

    def total(self) -> Tensor:
        """The sum of the terms."""
        return self.kernel + self.momentum + self.decay

    def scaled(self, factor: float) -> DeltaTerms:
        """Every term times a factor."""
        return DeltaTerms(
            kernel=self.kernel * factor, momentum=self.momentum * factor, decay=self.decay * factor
        )


@dataclass(frozen=True, kw_only=True)
class KernelBlock:
    """Kernel between E and U, and the predicted change. Rows are in the order of the batches."""

    k_eu: Tensor | None = None
    """[nE, nU] K(E,U); None without E or when not requested."""
    k_uu: Tensor | None = None
    """[nU, nU] K(U,U), symmetric."""
    delta_logpi: Tensor | None = None
    """[nE] predicted change of log π, all terms; None without E or when not requested."""
    terms: DeltaTerms | None = None
    """The terms of `delta_logpi`; None when only their sum was computed."""
    delta_logpi_u: Tensor | None = None
    """[nU] the same for U's own sequences, where the algorithm computes them."""
    terms_u: DeltaTerms | None = None
    token_delta: Tensor | None = None
    """[nE, T] change of each response token's log-probability (algorithm jvp)."""
    weights: Tensor
    """[nU] weights w of the loss."""
    norms_u: Tensor | None = None
    """[nU] sqrt(g·D·g), the norm that cosines are taken with."""
    norms_e: Tensor | None = None
    raw_norms_u: Tensor | None = None
    """[nU] |g|."""
    raw_norms_e: Tensor | None = None
    logpi_u: Tensor
    """[nU] log π before the step."""
    logpi_e: Tensor | None
    coverage: Mapping[str, float] = field(default_factory=dict)
    """Share of the trace of K(U,U) of each group of parameters."""
    slow_parameters: Sequence[str]
    """Parameters computed by autograd, one sequence at a time: hooks cannot record their module."""
    unused_parameters: Sequence[str]
    """Parameters without influence on the log-probability."""
    preconditioner: str
    lr: float
    """η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ)."""
    clip_factor: float
    gradient_norm: float
    """|G| before clipping: with `max_grad_norm` over all gradients that are clipped together, else
    over the parameters that count."""
    plan: CostPlan

    def cosines(self) -> Tensor:
        """[nE, nU] (or [nU, nU] without E) cosines in the metric D."""
        if self.k_eu is not None and self.norms_e is not None and self.norms_u is not None:
            return kernel_cosines(self.k_eu, self.norms_e, self.norms_u)
        if self.k_uu is not None and self.norms_u is not None:
            return kernel_cosines(self.k_uu, self.norms_u, self.norms_u)
        raise ConfigError("cosines need a block of K: request it with want=('EU', …)")

    def contributions(self) -> Tensor:
        """[nE, nU] the contribution of each sequence of U to each Δ log π, in nats."""
        if self.k_eu is None:
            raise ConfigError("contributions need K(E,U): request it with want=('EU', …)")
        factor = self.lr * self.rate * self.clip_factor
        return factor * self.k_eu * self.weights.to(self.k_eu)

    def what_if(self, weights: Tensor | Sequence[float]) -> Tensor:
        """[nE] the kernel term for other weights, without a pass of the model; D stays as it is."""
        if self.k_eu is None:
            raise ConfigError("what_if needs K(E,U): request it with want=('EU', …)")
        given = torch.as_tensor(weights, dtype=self.k_eu.dtype, device=self.k_eu.device)
        if given.shape != self.weights.shape:
            raise ConfigError(
                f"weights have shape {list(given.shape)}; expected one for each of the "
                f"{len(self.weights)} sequences of U"
            )
        return self.lr * self.rate * self.clip_factor * (self.k_eu @ given)


def kernel_cosines(kernel: Tensor, row_norms: Tensor, column_norms: Tensor) -> Tensor:
    """K over the norms sqrt(g·D·g) of its rows and columns: cosines in the metric D."""
    # A zero norm has K = 0 too; the bound makes that cosine 0 instead of NaN.
    return kernel / (row_norms[:, None] * column_norms).clamp_min(1e-300)
