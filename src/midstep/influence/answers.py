"""A kernel block and a batch, put together into the answer to a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.influence.results import RequestResult, contributors_of
from midstep.influence.sampling.batch import GeneratedBatch
from midstep.influence.workspace import KernelWorkspace

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.block import DeltaTerms, KernelBlock

__all__ = ["delta_of", "request_result", "under_other_advantages"]


def delta_of(total: Tensor | None, terms: DeltaTerms | None) -> dict[str, Tensor]:
    """Δ log π and its terms by name; empty when a block holds none."""
    if total is None or terms is None:
        return {}
    return {
        "total": total.cpu(),
        "kernel": terms.kernel.cpu(),
        "momentum": terms.momentum.cpu(),
        "decay": terms.decay.cpu(),
    }


def request_result(
    name: str,
    kind: str,
    batch: GeneratedBatch,
    block: KernelBlock,
    workspace: KernelWorkspace,
    *,
    full: bool,
) -> RequestResult:
    """The answer to a request under the update's own weights."""
    kernel, norms = _here(block.k_eu), _here(block.norms_e)
    contributors: list[Any] = [[] for _ in batch]
    if kernel is not None and norms is not None:
        contributors = contributors_of(
            workspace, kernel, norms, workspace.weights, workspace.plan.top_k
        )
    return RequestResult(
        name=name,
        kind=kind,
        batch=batch,
        delta=delta_of(block.delta_logpi, block.terms),
        contributors=contributors,
        norms=norms,
        raw_norms=_here(block.raw_norms_e),
        kernel_eu=kernel if full else None,
        token_delta=_here(block.token_delta),
        notes={"algorithm": block.plan.describe()},
    )


def _here(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.cpu()


def under_other_advantages(
    result: RequestResult,
    kernel: Tensor,
    workspace: KernelWorkspace,
    advantages: Mapping[str, float] | Tensor,
) -> RequestResult:
    """The same answer for other advantages; the preconditioner is that of the true update."""
    weights, top_k = workspace.weights_for(advantages), workspace.plan.top_k
    norms = result.norms if result.norms is not None else kernel.new_ones(len(kernel))
    return replace(
        result,
        delta=replace(result, kernel_eu=kernel).what_if(workspace, advantages),
        contributors=contributors_of(workspace, kernel, norms, weights, top_k),
        notes={**result.notes, "advantages": "changed; preconditioner of the true update"},
    )
