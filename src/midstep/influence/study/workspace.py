"""An update batch with its kernel and norms, from which questions about the step are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError, ControlError
from midstep.influence.fingerprints import KernelFingerprint
from midstep.influence.sampling.generated_batch import GeneratedBatch, SequenceRecord
from midstep.influence.study.plan import FisherKernelPlan

if TYPE_CHECKING:
    from midstep.influence.study.gradient_views import GradientViews


@dataclass(frozen=True, kw_only=True)
class StepFactors:
    """The factors of the step that are the same for every sequence."""

    lr: float
    """Learning rate η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ)."""
    clip_factor: float
    """Factor c of gradient clipping."""
    gradient_norm: float
    """|G| before clipping."""

    @property
    def factor(self) -> float:
        """η · rate · c, the factor of Σ_j K_ij w_j that gives nats."""
        return self.lr * self.rate * self.clip_factor


@dataclass
class GradientCache:
    """One sequence with its norms; its gradient is computed on request."""

    record: SequenceRecord
    norm: float
    """sqrt(g · D · g)."""
    raw_norm: float
    """|g|."""
    resident: Mapping[str, Tensor] | None = None
    """The gradient itself, which only the algorithm `resident` stores."""
    views: GradientViews | None = field(default=None, repr=False)
    """Computes the gradient when it is not stored."""

    def raw(self) -> Mapping[str, Tensor]:
        """The gradient g by parameter name, computed unless it is stored."""
        if self.resident is not None:
            return self.resident
        return self.require_views().raw(self.record)

    def preconditioned(self) -> Mapping[str, Tensor]:
        """D g by parameter name."""
        return self.require_views().preconditioned(self.raw())

    def require_views(self) -> GradientViews:
        """The views that compute this sequence's gradient; an error when none are bound."""
        if self.views is None:
            raise ControlError(
                f"the gradient of {self.record.sequence_id} is not stored, and this workspace was "
                "loaded without its model; load it with runner.load_workspace(…)"
            )
        return self.views


@dataclass(kw_only=True)
class KernelWorkspace:
    """An update batch U with K(U,U), norms and step factors, which all questions about it share."""

    batch: GeneratedBatch
    """The update U."""
    plan: FisherKernelPlan
    """The plan that it was computed with."""
    fingerprint: KernelFingerprint
    """Weights, optimizer state and tokenizer that it belongs to."""
    step: StepFactors
    """Factors of the step."""
    kernel_uu: Tensor
    """K(U,U), [nU, nU]."""
    delta_u: Mapping[str, Tensor]
    """Predicted change of U's own log π and its terms by name, each [nU] in nats."""
    norms: Tensor
    """sqrt(g · D · g), [nU]."""
    raw_norms: Tensor
    """|g|, [nU]."""
    coverage: Mapping[str, float]
    """Share of the trace of K(U,U) of each group of parameters."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The planner's line, and the parameters that were computed slowly or not used."""
    caches: dict[str, GradientCache] = field(default_factory=dict)
    """By sequence id: the sequences of U, and those evaluated since."""

    def __post_init__(self) -> None:
        for at, record in enumerate(self.batch):
            self.caches.setdefault(
                record.sequence_id,
                GradientCache(record, self.norms[at].item(), self.raw_norms[at].item()),
            )

    @property
    def weights(self) -> Tensor:
        """Weights w of the update."""
        return self.batch.weights

    @property
    def views(self) -> GradientViews | None:
        """The views that this workspace is bound to; None when it was loaded without a model."""
        return self.cache(self.batch.sequence_ids[0]).views

    def require_views(self) -> GradientViews:
        """The views of this workspace; an error when it is not bound to a model."""
        return self.cache(self.batch.sequence_ids[0]).require_views()

    def bind(self, views: GradientViews) -> None:
        """Let gradients be computed with this model. The caller has compared its fingerprint."""
        for cache in self.caches.values():
            cache.views = views

    def add(self, batch: GeneratedBatch, norms: Tensor, raw_norms: Tensor, name: str) -> None:
        """Add evaluated sequences, so that `kernel` finds them as `name/E-000-00`."""
        for at, record in enumerate(batch):
            self.caches[f"{name}/{record.sequence_id}"] = GradientCache(
                record, norms[at].item(), raw_norms[at].item(), views=self.views
            )

    def cache(self, sequence_id: str) -> GradientCache:
        """The cache of a sequence of U, or of an evaluated one by `request/id`."""
        if sequence_id not in self.caches:
            known = ", ".join(list(self.caches)[:4])
            raise ConfigError(f"no sequence {sequence_id!r} in this workspace; ids are {known}, …")
        return self.caches[sequence_id]

    def kernel(self, id_a: str, id_b: str) -> float:
        """K of two sequences: the stored entry for two of U, else computed from their gradients."""
        update_ids = self.batch.sequence_ids
        one, other = self.cache(id_a), self.cache(id_b)
        if id_a in update_ids and id_b in update_ids:
            at = self.batch.index_of(id_a), self.batch.index_of(id_b)
            return self.kernel_uu[at].item()
        return one.require_views().contract(one.raw(), other.raw())

    def check_same(self, other: KernelWorkspace) -> None:
        """Raise an error that names the difference, for a workspace of another checkpoint."""
        self.fingerprint.check_same(other.fingerprint, "these workspaces")

    def weights_for(self, advantages: Mapping[str, float] | Tensor) -> Tensor:
        """Weights w for other advantages; sequences that are not named keep theirs."""
        new_advantages = self.batch.advantages.clone()
        if isinstance(advantages, Mapping):
            for sequence_id, value in advantages.items():
                new_advantages[self.batch.index_of(sequence_id)] = float(value)
        else:
            new_advantages = torch.as_tensor(advantages, dtype=torch.float64)
        if new_advantages.shape != self.weights.shape or not bool(new_advantages.isfinite().all()):
            raise ConfigError(
                f"advantages must be {len(self.batch)} finite numbers, one per sequence of the "
                "update"
            )
        if not bool(self.batch.normalisers.isfinite().all()):
            raise ConfigError(
                "this update has weights but no normalisers, so weights for other advantages are "
                "unknown; sample it with an advantage scheme"
            )
        # w = A · n: the scheme's normaliser n (1/N, 1/(N |o|), …) does not depend on the advantage.
        return new_advantages * self.batch.normalisers
