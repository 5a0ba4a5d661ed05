"""An update ready to be asked about: its sequences, norms and kernel, and what they belong to."""

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
    """The numbers of the step that are the same for every sequence."""

    lr: float
    """η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ)."""
    clip_factor: float
    """c."""
    gradient_norm: float
    """|G| before clipping."""

    @property
    def factor(self) -> float:
        """What stands before Σ_j K_ij w_j in nats."""
        return self.lr * self.rate * self.clip_factor


@dataclass
class GradientCache:
    """One sequence: norms always, gradients when asked for."""

    record: SequenceRecord
    norm: float
    """sqrt(g · D · g)."""
    raw_norm: float
    """|g|."""
    resident: Mapping[str, Tensor] | None = None
    """The gradient itself, kept by the algorithm `resident` alone."""
    views: GradientViews | None = field(default=None, repr=False)
    """Where the gradient comes from when it is not kept."""

    def raw(self) -> Mapping[str, Tensor]:
        """The gradient g by parameter name; computed again unless it is kept."""
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
                f"the gradient of {self.record.sequence_id} is not kept, and this workspace was "
                "loaded without its model; load it with runner.load_workspace(…)"
            )
        return self.views


@dataclass(kw_only=True)
class KernelWorkspace:
    """An update batch with everything that questions about it share."""

    batch: GeneratedBatch
    """U."""
    plan: FisherKernelPlan
    """How it was made."""
    fingerprint: KernelFingerprint
    """What it belongs to."""
    step: StepFactors
    """Rates of the step."""
    kernel_uu: Tensor
    """K(U,U), [nU, nU]."""
    delta_u: Mapping[str, Tensor]
    """Predicted change of U's own log π with its terms, each [nU] in nats."""
    norms: Tensor
    """sqrt(g · D · g), [nU]."""
    raw_norms: Tensor
    """|g|, [nU]."""
    coverage: Mapping[str, float]
    """Share of the trace of K(U,U) that each group of parameters holds."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the planner said, and parameters that took the slow way."""
    caches: dict[str, GradientCache] = field(default_factory=dict)
    """By sequence id: U, and the sequences evaluated since."""

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

    def bind(self, views: GradientViews) -> None:
        """Let gradients be computed with this model; it must be the one of the fingerprint."""
        for cache in self.caches.values():
            cache.views = views

    def add(self, batch: GeneratedBatch, norms: Tensor, raw_norms: Tensor, name: str) -> None:
        """Make evaluated sequences askable by `kernel`, as `name/E-000-00`."""
        views = next(iter(self.caches.values())).views
        for at, record in enumerate(batch):
            self.caches[f"{name}/{record.sequence_id}"] = GradientCache(
                record, norms[at].item(), raw_norms[at].item(), views=views
            )

    def cache(self, sequence_id: str) -> GradientCache:
        """The cache of a sequence of U, or of an evaluated one by `request/id`."""
        if sequence_id not in self.caches:
            known = ", ".join(list(self.caches)[:4])
            raise ConfigError(f"no sequence {sequence_id!r} in this workspace; ids are {known}, …")
        return self.caches[sequence_id]

    def kernel(self, id_a: str, id_b: str) -> float:
        """K of two sequences: as stored for two of U, else from their gradients."""
        update_ids = self.batch.sequence_ids
        one, other = self.cache(id_a), self.cache(id_b)
        if id_a in update_ids and id_b in update_ids:
            at = self.batch.index_of(id_a), self.batch.index_of(id_b)
            return self.kernel_uu[at].item()
        return one.require_views().contract(one.raw(), other.raw())

    def check_same(self, other: KernelWorkspace) -> None:
        """Refuse a workspace of another checkpoint, with the reason."""
        self.fingerprint.check_same(other.fingerprint, "these workspaces")

    def weights_for(self, advantages: Mapping[str, float] | Tensor | None) -> Tensor:
        """Weights w for other advantages; those not named stay. None: the update's own."""
        if advantages is None:
            return self.weights
        new_advantages = self.batch.advantages.clone()
        if isinstance(advantages, Mapping):
            for sequence_id, value in advantages.items():
                new_advantages[self.batch.index_of(sequence_id)] = float(value)
        else:
            new_advantages = torch.as_tensor(advantages, dtype=torch.float64)
        if new_advantages.shape != self.weights.shape or not bool(new_advantages.isfinite().all()):
            raise ConfigError(
                f"advantages must be {len(self.batch)} finite numbers, one a sequence of the update"
            )
        if not bool(self.batch.normalisers.isfinite().all()):
            raise ConfigError(
                "this update has weights but no normalisers, so advantages do not become weights; "
                "sample it with an advantage scheme"
            )
        return new_advantages * self.batch.normalisers
