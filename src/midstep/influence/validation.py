"""Predicted against actual: true steps over several learning rates, or what training did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError, ControlError
from midstep.influence.entropy_change import entropy_rate
from midstep.influence.kernels import fisher_kernel
from midstep.influence.sampling.batch import GeneratedBatch
from midstep.influence.sampling.checkpoints import load_checkpoint
from midstep.influence.sampling.processor import SequenceProcessor
from midstep.influence.step_check import (
    RateCheck,
    error_slope,
    predicted_change,
    stepped_copy,
)

if TYPE_CHECKING:
    from torch import nn

    from midstep.influence.views import GradientViews
    from midstep.influence.workspace import KernelWorkspace

__all__ = ["AfterCheck", "Validation", "validate"]

DEFAULT_SPREAD = (1.0, 0.3, 0.1, 0.03)
"""Learning rates of the sweep, in units of the step's own."""


@dataclass(frozen=True, kw_only=True)
class AfterCheck:
    """The prediction beside the change between two checkpoints."""

    checkpoint: str
    predicted: Tensor
    actual: Tensor
    correlation: float
    relative_error: float


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How right the prediction was."""

    sequence_ids: tuple[str, ...]
    """E, or U itself."""
    rates: tuple[RateCheck, ...]
    """One a learning rate."""
    slope: float | None
    """Of log error over log η: 1 when exact to first order; None with fewer than two rates."""
    entropy_change: tuple[float, ...]
    """Change of the mean entropy of a response token after the true step, one a rate."""
    entropy_predicted: tuple[float, ...]
    """The same to first order."""
    after: AfterCheck | None = None
    """Against what training itself did, when a checkpoint after the step was given."""

    def described(self) -> dict[str, Any]:
        """As plain data for results.json."""
        after = self.after
        return {
            "sequence_ids": self.sequence_ids,
            "slope": self.slope,
            "rates": [
                {
                    "lr": one.lr,
                    "relative_error": one.relative_error,
                    "correlation": one.correlation,
                    "entropy_change": self.entropy_change[at],
                    "entropy_predicted": self.entropy_predicted[at],
                    "predicted": one.predicted,
                    "actual": one.actual,
                }
                for at, one in enumerate(self.rates)
            ],
            "after": None if after is None else dict(vars(after)),
        }


def validate(
    workspace: KernelWorkspace,
    evaluation: GeneratedBatch | None = None,
    *,
    rates: Sequence[float] | None = None,
    after: str | os.PathLike[str] | None = None,
) -> Validation:
    """Take true AdamW steps from the loaded state, on copies, and compare.

    Args:
        workspace: prepared or loaded by a runner, so that its model is at hand.
        evaluation: E; None: the update's own sequences.
        rates: learning rates to try; None: the step's own and three smaller ones.
        after: folder of the checkpoint that training itself reached with this step.
    """
    views = _views(workspace)
    batch = evaluation if evaluation is not None else workspace.batch
    tried = tuple(rates) if rates else tuple(workspace.step.lr * s for s in DEFAULT_SPREAD)
    if any(not rate > 0 for rate in tried):
        raise ConfigError(f"learning rates must be above 0, got {list(tried)}")
    if workspace.plan.parameters is not None:
        raise ConfigError(
            "this plan counts only some parameters, a true step moves all that train; check a plan "
            "without 'parameters', or freeze the others in the checkpoint"
        )
    predicted = _predicted(workspace, views, batch) / workspace.step.lr
    before = _scored(views.computing_model, batch)
    checks, entropy = [], []
    slope = 0.0
    for rate in tried:
        moved = _stepped(workspace, views, rate)
        if rate == max(tried):  # where the difference of the weights is best resolved
            slope = entropy_rate(views.computing_model, moved, batch, rate)
        after_step = _scored(moved, batch)
        checks.append(_compared(rate, predicted * rate, after_step.log_pi - before.log_pi))
        entropy.append(after_step.entropy - before.entropy)
    return Validation(
        sequence_ids=batch.sequence_ids,
        rates=tuple(checks),
        slope=error_slope(checks) if len(checks) > 1 else None,
        entropy_change=tuple(entropy),
        entropy_predicted=tuple(slope * rate for rate in tried),
        after=None if after is None else _after(workspace, predicted, before, batch, after),
    )


def _views(workspace: KernelWorkspace) -> GradientViews:
    views = workspace.cache(workspace.batch.sequence_ids[0]).views
    if views is None:
        raise ControlError(
            "this workspace was loaded without its model; load it with runner.load_workspace(…)"
        )
    return views


@dataclass(frozen=True)
class _Scored:
    """What a model gives a batch."""

    log_pi: Tensor
    entropy: float
    device: str
    dtype: str


def _scored(model: nn.Module, batch: GeneratedBatch) -> _Scored:
    """The log π of each sequence and the mean entropy of a response token, in one pass."""
    pairs = [(one.prompt_tokens, one.response_tokens) for one in batch]
    scores = SequenceProcessor(model, pad_id=batch.pad_id).score(pairs)
    entropies = [entropy for one in scores for entropy in one.entropies]
    parameter = next(model.parameters())
    return _Scored(
        torch.tensor([sum(one.logprobs) for one in scores], dtype=torch.float64),
        sum(entropies) / len(entropies),
        str(parameter.device),
        str(parameter.dtype).removeprefix("torch."),
    )


def _options(workspace: KernelWorkspace, views: GradientViews) -> Any:
    return {
        "optimizer": views.adam_state(),
        "update": workspace.batch,
        "weights": workspace.weights,
        "max_grad_norm": workspace.plan.max_grad_norm,
        "microbatch": workspace.plan.microbatch,
    }


def _predicted(workspace: KernelWorkspace, views: GradientViews, batch: GeneratedBatch) -> Tensor:
    """Δ log π at the step's own learning rate."""
    want: Any = ("delta",)
    block = fisher_kernel(
        views.computing_model,
        evaluation=batch,
        preconditioner=workspace.plan.preconditioner,
        parameters=workspace.plan.parameters,
        lr=workspace.step.lr,
        want=want,
        **_options(workspace, views),
    )
    return predicted_change(block).double().cpu()


def _stepped(workspace: KernelWorkspace, views: GradientViews, rate: float) -> nn.Module:
    return stepped_copy(views.computing_model, lr=rate, **_options(workspace, views))


def _compared(rate: float, predicted: Tensor, actual: Tensor) -> RateCheck:
    return RateCheck(
        lr=rate,
        predicted=predicted,
        actual=actual,
        relative_error=((predicted - actual).norm() / actual.norm()).item(),
        correlation=_correlation(predicted, actual),
    )


def _after(
    workspace: KernelWorkspace,
    predicted: Tensor,
    before: _Scored,
    batch: GeneratedBatch,
    path: str | os.PathLike[str],
) -> AfterCheck:
    """At the step's own learning rate: that is the one which training took."""
    reached, tokenizer = load_checkpoint(path, device=before.device, dtype=before.dtype)
    if tokenizer.fingerprint != workspace.fingerprint.tokenizer:
        raise ConfigError(f"checkpoint {os.fspath(path)} has another tokenizer than the update's")
    actual = _scored(reached, batch).log_pi - before.log_pi
    found = _compared(workspace.step.lr, predicted * workspace.step.lr, actual)
    return AfterCheck(
        checkpoint=os.fspath(path),
        predicted=found.predicted,
        actual=found.actual,
        correlation=found.correlation,
        relative_error=found.relative_error,
    )


def _correlation(one: Tensor, other: Tensor) -> float:
    if len(one) < 2:
        return float("nan")
    return torch.corrcoef(torch.stack([one, other]))[0, 1].item()
