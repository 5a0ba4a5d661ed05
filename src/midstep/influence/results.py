"""What a study found: per request the predicted changes and who made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.influence.contributors import Contributor, top_contributors
from midstep.influence.sampling.batch import GeneratedBatch
from midstep.influence.workspace import KernelWorkspace

__all__ = [
    "FisherKernelResults",
    "RequestResult",
    "SelfKernel",
    "contributors_of",
    "self_kernel_of",
]


@dataclass(frozen=True, kw_only=True)
class RequestResult:
    """The answer to one request: how far the update moves each sequence, and by whom."""

    name: str
    """The request's."""
    kind: str
    """The request's."""
    batch: GeneratedBatch
    """E."""
    delta: Mapping[str, Tensor]
    """total, kernel, momentum, decay: predicted change of log π in nats, each [nE]."""
    contributors: Sequence[Sequence[Contributor]]
    """Per sequence, who moved it most."""
    norms: Tensor | None = None
    """sqrt(g · D · g), [nE]; None when only Δ was computed."""
    raw_norms: Tensor | None = None
    """|g|, [nE]."""
    kernel_eu: Tensor | None = None
    """K(E,U), [nE, nU], when it was to be kept."""
    token_delta: Tensor | None = None
    """Change of each response token [nE, T], from the algorithm jvp."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the planner said; whether advantages were changed."""

    def what_if(
        self, workspace: KernelWorkspace, advantages: Mapping[str, float] | Tensor
    ) -> dict[str, Tensor]:
        """The change under other advantages, without a model pass.

        The preconditioner is held as the true update made it: exact for `adam_state` and `sgd`,
        and for `adam_post` as good as v' stays the same. Momentum and decay do not change.
        """
        if self.kernel_eu is None:
            raise ConfigError(
                f"request {self.name!r} kept no kernel; run it with full_kernel=True for what-if"
            )
        weights = workspace.weights_for(advantages).to(self.kernel_eu)
        kernel = workspace.step.factor * (self.kernel_eu @ weights)
        rest = self.delta["momentum"] + self.delta["decay"]
        return {**self.delta, "kernel": kernel, "total": kernel + rest.to(kernel)}

    def described(self, update: GeneratedBatch, update_norms: Tensor) -> dict[str, Any]:
        """As plain data for results.json."""
        median = update_norms.median().item()
        return {
            "name": self.name,
            "kind": self.kind,
            "notes": self.notes,
            "sampling": self.batch.diagnostics,
            "sequences": [self._sequence(at, update, median) for at in range(len(self.batch))],
        }

    def _sequence(self, at: int, update: GeneratedBatch, median: float) -> dict[str, Any]:
        record = self.batch.records[at]
        norm = self.norms[at].item() if self.norms is not None else None
        return {
            "sequence_id": record.sequence_id,
            "global_prompt_id": record.provenance.global_prompt_id,
            "prompt": record.prompt_text,
            "response": record.response_text,
            "reward": record.reward,
            "logprob": record.logprob,
            "entropy": sum(record.entropies) / len(record.entropies),
            "delta": {name: values[at].item() for name, values in self.delta.items()},
            "norm": norm,
            "raw_norm": self.raw_norms[at].item() if self.raw_norms is not None else None,
            "norm_ratio": norm / median if norm is not None and median else None,
            "contributors": [
                {**asdict(one), "advantage": update.record(one.sequence_id).advantage}
                for one in self.contributors[at]
            ],
        }


@dataclass(frozen=True, kw_only=True)
class SelfKernel:
    """K within the update."""

    sequence_ids: tuple[str, ...]
    """The sequences looked at."""
    influence: Tensor
    """Σ_j K(t, t_j) A_j over all of U, [n]."""
    delta: Tensor
    """η · rate · c Σ_j K(t, t_j) w_j in nats, [n]."""
    norms: Tensor
    """sqrt(K(t, t)), [n]."""
    norm_ratios: Tensor
    """norm over |g|: how much D shrinks or stretches, [n]."""
    mean_cosine: float
    """Of the pairs of different sequences."""
    kernel: Tensor | None = None
    """K among them, when it was to be captured."""

    def described(self) -> dict[str, Any]:
        """As plain data for results.json."""
        return {
            "sequence_ids": self.sequence_ids,
            "influence": self.influence,
            "delta": self.delta,
            "norms": self.norms,
            "norm_ratios": self.norm_ratios,
            "mean_cosine": self.mean_cosine,
        }


def self_kernel_of(
    workspace: KernelWorkspace, sequence_ids: Sequence[str] | None = None, *, capture_full: bool
) -> SelfKernel:
    """K among some sequences of the update and what all of U does to them."""
    ids = tuple(sequence_ids) if sequence_ids is not None else workspace.batch.sequence_ids
    rows = torch.tensor([workspace.batch.index_of(one) for one in ids])
    kernel = workspace.kernel_uu[rows]
    among = kernel[:, rows]
    norms, raw = workspace.norms[rows], workspace.raw_norms[rows]
    cosines = among / (norms[:, None] * norms).clamp_min(1e-300)
    apart = ~torch.eye(len(ids), dtype=torch.bool)
    advantages = workspace.batch.advantages.nan_to_num(0.0).to(kernel)
    return SelfKernel(
        sequence_ids=ids,
        influence=kernel @ advantages,
        delta=workspace.step.factor * (kernel @ workspace.weights.to(kernel)),
        norms=norms,
        norm_ratios=norms / raw.clamp_min(1e-300),
        mean_cosine=cosines[apart].mean().item() if len(ids) > 1 else float("nan"),
        kernel=among if capture_full else None,
    )


def contributors_of(
    workspace: KernelWorkspace, kernel_eu: Tensor, norms_e: Tensor, weights: Tensor, top_k: int
) -> list[list[Contributor]]:
    """The largest contributions to each evaluated sequence."""
    moved = workspace.step.factor * kernel_eu * weights.to(kernel_eu)
    norms_u = workspace.norms.to(norms_e)
    cosines = kernel_eu / (norms_e[:, None] * norms_u).clamp_min(1e-300)
    return top_contributors(moved, kernel_eu, cosines, workspace.batch.sequence_ids, top_k)


@dataclass(frozen=True, kw_only=True)
class FisherKernelResults:
    """Everything one run of a plan found."""

    workspace: KernelWorkspace
    """The update."""
    requests: tuple[RequestResult, ...]
    """One a request, in the plan's order."""
    self_kernel: SelfKernel | None = None
    """K within the update."""
    validation: Mapping[str, Any] | None = None
    """Predicted against actual, where it was asked for."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The runner's settings."""
    directory: Path | None = None
    """Where it lies."""

    def request(self, name: str) -> RequestResult:
        """The result of a request by its name."""
        for one in self.requests:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.requests) or "none"
        raise ConfigError(f"no request is called {name!r}; there are {known}")
