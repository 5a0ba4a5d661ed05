"""Results of a study: for each request the predicted changes and their contributors.

Shapes: E evaluated sequences, U sequences of the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.influence.kernels.kernel_block import kernel_cosines
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.study.workspace import KernelWorkspace

if TYPE_CHECKING:
    from midstep.influence.kernels.kernel_block import DeltaTerms, KernelBlock


@dataclass(frozen=True, kw_only=True)
class Contributor:
    """One sequence of the update and its contribution to the change of an evaluated sequence."""

    sequence_id: str
    """Its id in the update."""
    contribution: float
    """Its signed contribution to Δ log π, in nats."""
    kernel: float
    """K of the two sequences."""
    cosine: float
    """K over the two norms; NaN when a norm is unknown."""


def top_contributors(
    contributions_EU: Tensor,
    kernel_EU: Tensor,
    cosine_EU: Tensor,
    sequence_ids: Sequence[str],
    top_k: int,
) -> list[list[Contributor]]:
    """The `top_k` contributions of the largest size to each row, without zeros; ties by id.

    >>> import torch
    >>> values = torch.tensor([[0.5, -2.0, 0.5, 0.0]])
    >>> rows = top_contributors(values, values, values, ["U-3", "U-2", "U-1", "U-0"], 3)
    >>> [one.sequence_id for one in rows[0]]
    ['U-2', 'U-1', 'U-3']
    """
    rows = zip(contributions_EU.tolist(), kernel_EU.tolist(), cosine_EU.tolist(), strict=True)
    return [
        [
            Contributor(
                sequence_id=sequence_ids[at],
                contribution=moved[at],
                kernel=kernel[at],
                cosine=cosine[at],
            )
            for at in _largest_first(moved, sequence_ids)[:top_k]
        ]
        for moved, kernel, cosine in rows
    ]


def _largest_first(moved: Sequence[float], sequence_ids: Sequence[str]) -> list[int]:
    nonzero = [at for at, value in enumerate(moved) if value != 0]
    return sorted(nonzero, key=lambda at: (-abs(moved[at]), sequence_ids[at]))


@dataclass(frozen=True, kw_only=True)
class RequestResult:
    """The result of one request: the change of each sequence, and its contributors."""

    name: str
    """Name of the request."""
    kind: str
    """Kind of the request."""
    batch: GeneratedBatch
    """The evaluated batch E."""
    delta: Mapping[str, Tensor]
    """total, kernel, momentum, decay: predicted change of log π in nats, each [nE]."""
    contributors: Sequence[Sequence[Contributor]]
    """The largest contributors of each sequence."""
    norms: Tensor | None = None
    """sqrt(g · D · g), [nE]; None when only Δ was computed."""
    raw_norms: Tensor | None = None
    """|g|, [nE]."""
    kernel_eu: Tensor | None = None
    """K(E,U), [nE, nU], if the plan or the caller keeps it."""
    token_delta: Tensor | None = None
    """Change of each response token [nE, T], from the algorithm jvp."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The planner's line, and whether advantages were changed."""

    def what_if(
        self, workspace: KernelWorkspace, advantages: Mapping[str, float] | Tensor
    ) -> dict[str, Tensor]:
        """The change under other advantages, without a pass of the model.

        The preconditioner stays that of the true update. That is exact for `adam_state` and `sgd`;
        with `adam_post` other advantages would also change v'. Momentum and decay do not change.
        """
        if self.kernel_eu is None:
            raise ConfigError(
                f"request {self.name!r} kept no kernel; run it with full_kernel=True to use what_if"
            )
        weights = workspace.weights_for(advantages).to(self.kernel_eu)
        kernel = workspace.step.factor * (self.kernel_eu @ weights)
        rest = self.delta["momentum"] + self.delta["decay"]
        return {**self.delta, "kernel": kernel, "total": kernel + rest.to(kernel)}

    def to_json(self, update: GeneratedBatch, update_norms: Tensor) -> dict[str, Any]:
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
            **record.summary(),
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
    """The selected sequences of U."""
    influence: Tensor
    """Σ_j K(t, t_j) A_j over all of U, [n]."""
    delta: Tensor
    """η · rate · c Σ_j K(t, t_j) w_j in nats, [n]."""
    norms: Tensor
    """sqrt(K(t, t)), [n]."""
    norm_ratios: Tensor
    """norm over |g|: how much D scales the gradient, [n]."""
    mean_cosine: float
    """Mean cosine of pairs of different sequences."""
    kernel: Tensor | None = None
    """K among the selected sequences, when requested."""

    def to_json(self) -> dict[str, Any]:
        """As plain data for results.json."""
        return {name: value for name, value in vars(self).items() if name != "kernel"}


def build_self_kernel(
    workspace: KernelWorkspace, sequence_ids: Sequence[str] | None = None, *, capture_full: bool
) -> SelfKernel:
    """K among some sequences of the update, and the effect of all of U on them."""
    ids = tuple(sequence_ids) if sequence_ids is not None else workspace.batch.sequence_ids
    rows = torch.tensor([workspace.batch.index_of(one) for one in ids])
    kernel = workspace.kernel_uu[rows]
    among = kernel[:, rows]
    norms, raw = workspace.norms[rows], workspace.raw_norms[rows]
    cosines = kernel_cosines(among, norms, norms)
    off_diagonal = ~torch.eye(len(ids), dtype=torch.bool)
    advantages = workspace.batch.advantages.nan_to_num(0.0).to(kernel)
    return SelfKernel(
        sequence_ids=ids,
        influence=kernel @ advantages,
        delta=workspace.step.factor * (kernel @ workspace.weights.to(kernel)),
        norms=norms,
        norm_ratios=norms / raw.clamp_min(1e-300),
        mean_cosine=cosines[off_diagonal].mean().item() if len(ids) > 1 else float("nan"),
        kernel=among if capture_full else None,
    )


def find_contributors(
    workspace: KernelWorkspace, kernel_eu: Tensor, norms_e: Tensor, weights: Tensor
) -> list[list[Contributor]]:
    """The largest contributions to each evaluated sequence."""
    contributions = workspace.step.factor * kernel_eu * weights.to(kernel_eu)
    cosines = kernel_cosines(kernel_eu, norms_e, workspace.norms.to(norms_e))
    ids, top_k = workspace.batch.sequence_ids, workspace.plan.top_k
    return top_contributors(contributions, kernel_eu, cosines, ids, top_k)


@dataclass(frozen=True, kw_only=True)
class FisherKernelResults:
    """Everything that one run of a plan computed."""

    workspace: KernelWorkspace
    """The update."""
    requests: tuple[RequestResult, ...]
    """One result per request, in the order of the plan."""
    self_kernel: SelfKernel | None = None
    """K within the update."""
    validation: Mapping[str, Any] | None = None
    """Comparison with true steps, if the plan requests it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The runner's settings."""
    directory: Path | None = None
    """Folder of the run."""

    def request(self, name: str) -> RequestResult:
        """The result of a request by its name."""
        for one in self.requests:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.requests) or "none"
        raise ConfigError(f"no request is called {name!r}; the requests are {known}")


def delta_by_term(total: Tensor | None, terms: DeltaTerms | None) -> dict[str, Tensor]:
    """Δ log π and its terms by name; empty when a block holds none."""
    if total is None or terms is None:
        return {}
    return {"total": total.cpu()} | {name: each.cpu() for name, each in vars(terms).items()}


def build_request_result(
    name: str,
    kind: str,
    batch: GeneratedBatch,
    block: KernelBlock,
    workspace: KernelWorkspace,
    *,
    full: bool,
) -> RequestResult:
    """The result of a request with the update's own weights."""
    kernel, norms = _to_cpu(block.k_eu), _to_cpu(block.norms_e)
    contributors: list[Any] = [[] for _ in batch]
    if kernel is not None and norms is not None:
        contributors = find_contributors(workspace, kernel, norms, workspace.weights)
    return RequestResult(
        name=name,
        kind=kind,
        batch=batch,
        delta=delta_by_term(block.delta_logpi, block.terms),
        contributors=contributors,
        norms=norms,
        raw_norms=_to_cpu(block.raw_norms_e),
        kernel_eu=kernel if full else None,
        token_delta=_to_cpu(block.token_delta),
        notes={"algorithm": block.plan.describe()},
    )


def _to_cpu(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.cpu()


def with_other_advantages(
    result: RequestResult,
    kernel: Tensor,
    workspace: KernelWorkspace,
    advantages: Mapping[str, float] | Tensor,
) -> RequestResult:
    """The result for other advantages; the preconditioner stays that of the true update."""
    weights = workspace.weights_for(advantages)
    # Ones in place of unknown norms change the cosines, not the contributions.
    norms = result.norms if result.norms is not None else kernel.new_ones(len(kernel))
    return replace(
        result,
        delta=replace(result, kernel_eu=kernel).what_if(workspace, advantages),
        contributors=find_contributors(workspace, kernel, norms, weights),
        notes={**result.notes, "advantages": "changed; preconditioner of the true update"},
    )
