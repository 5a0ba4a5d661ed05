"""Compare predicted with actual changes: after true steps at several learning rates, or after a
step of the training itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.true_step import (
    RateCheck,
    error_slope,
    predicted_change,
    step_dtype,
    stepped_copy,
    wide_model,
)
from midstep.influence.sampling.generated_batch import GeneratedBatch
from midstep.influence.sampling.lm_checkpoints import DTYPES, load_checkpoint
from midstep.influence.sampling.sequence_processor import (
    SequenceProcessor,
    length_buckets,
    token_scores,
)

if TYPE_CHECKING:
    from torch import nn

    from midstep.influence.study.gradient_views import GradientViews
    from midstep.influence.study.workspace import KernelWorkspace


_TOKENS = 1024
"""Tokens of a pass. Its logits [tokens, vocabulary] are held together with their graph."""


def entropy_rate(
    model: nn.Module, stepped_model: nn.Module, batch: GeneratedBatch, rate: float
) -> float:
    """∂/∂η of the mean entropy of a response token, along the step from `model` to `stepped_model`.

    An AdamW step is linear in its learning rate, so a step at any `rate` gives the direction:
    ∂H/∂η = ∂H/∂θ · (θ_stepped − θ) / rate.
    """
    processor = SequenceProcessor(model, pad_id=batch.pad_id)
    pairs = [(one.prompt_tokens, one.response_tokens) for one in batch]
    lengths = [len(prompt) + len(response) for prompt, response in pairs]
    ends = dict(stepped_model.named_parameters())
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    entropy_change, tokens = 0.0, 0
    for rows in length_buckets(lengths, _TOKENS):
        ids, mask, scored = processor.padded_tensors([pairs[row] for row in rows])
        with torch.enable_grad():
            hidden = processor.model.hidden(ids, mask)[:, :-1][scored[:, 1:]]
            _, entropy = token_scores(processor.model.head(hidden), ids[:, 1:][scored[:, 1:]])
            grads = torch.autograd.grad(entropy.sum(), list(trained.values()), allow_unused=True)
        tokens += len(entropy)
        for (name, start), grad in zip(trained.items(), grads, strict=True):
            if grad is not None:
                step = ends[name].detach() - start.detach()
                entropy_change += (grad * step).sum(dtype=torch.float64).item()
    return entropy_change / tokens / rate


DEFAULT_SPREAD = (1.0, 0.3, 0.1, 0.03)
"""Learning rates that are tried by default, in units of the step's own."""


@dataclass(frozen=True, kw_only=True)
class AfterCheck(RateCheck):
    """Predicted change and the change between two checkpoints of a training."""

    checkpoint: str
    """Folder of the checkpoint after the step."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How well the prediction agrees with true steps."""

    sequence_ids: tuple[str, ...]
    """The sequences of E, or of U."""
    rates: tuple[RateCheck, ...]
    """One check per learning rate."""
    slope: float | None
    """Slope of log error over log η; 1 when exact to first order. None with fewer than two
    rates."""
    entropy_change: tuple[float, ...]
    """Change of the mean entropy of a response token after the true step, for each rate."""
    entropy_predicted: tuple[float, ...]
    """The same change as it is predicted to first order."""
    dtype: str
    """Type of the copies of weights and optimizer state that steps and prediction were made on."""
    rounding: float | None = None
    """Relative difference between the study's own prediction and the one in `dtype`, where the
    study computes in a narrower type."""
    after: AfterCheck | None = None
    """Comparison with the training's own step, when the checkpoint after it was given."""

    def to_json(self) -> dict[str, Any]:
        """As plain data for results.json."""
        after = self.after
        return {
            "sequence_ids": self.sequence_ids,
            "slope": self.slope,
            "dtype": self.dtype,
            "rounding": self.rounding,
            "rates": [
                {
                    **vars(one),
                    "entropy_change": self.entropy_change[at],
                    "entropy_predicted": self.entropy_predicted[at],
                }
                for at, one in enumerate(self.rates)
            ],
            # Without `lr`: it is that of the update, which results.json has already.
            "after": after and {name: each for name, each in vars(after).items() if name != "lr"},
        }


def validate(
    workspace: KernelWorkspace,
    evaluation: GeneratedBatch | None = None,
    *,
    rates: Sequence[float] | None = None,
    after: str | os.PathLike[str] | None = None,
) -> Validation:
    """Make true steps with a copy of the optimizer from the loaded state, and compare.

    Steps and prediction are made on float32 copies of weights and state, or on wider ones if the
    model or the plan is wider. For a study in bfloat16, `rounding` says how far its own prediction
    is from that.

    Args:
        workspace: prepared or loaded by a runner, so that it is bound to its model.
        evaluation: E; None: the update's own sequences.
        rates: learning rates to try; None: the step's own and three smaller ones.
        after: folder of the checkpoint that the training reached with this step.
    """
    views = workspace.require_views()
    batch = evaluation if evaluation is not None else workspace.batch
    learning_rates = tuple(rates) if rates else tuple(workspace.step.lr * s for s in DEFAULT_SPREAD)
    if any(not rate > 0 for rate in learning_rates):
        raise ConfigError(f"learning rates must be above 0, got {list(learning_rates)}")
    if workspace.plan.parameters is not None:
        raise ConfigError(
            "this plan counts only some parameters, but a true step changes all that train; check "
            "a plan without 'parameters', or freeze the others in the checkpoint"
        )
    optimizer = views.step_optimizer()
    dtype = step_dtype(views.model, DTYPES.get(workspace.plan.dtype or ""))
    model = wide_model(views.model, dtype)
    predicted = _predict(workspace, model, batch) / workspace.step.lr
    log_pi_before, entropy_before = _score_batch(model, batch)
    checks, entropy_changes = [], []
    slope = 0.0
    for rate in learning_rates:
        stepped_model = stepped_copy(
            views.model, optimizer, lr=rate, dtype=dtype, **_step_options(workspace)
        )
        if rate == max(learning_rates):  # the largest step loses the fewest digits in θ' − θ
            slope = entropy_rate(model, stepped_model, batch, rate)
        log_pi, entropy = _score_batch(stepped_model, batch)
        checks.append(RateCheck.compare(rate, predicted * rate, log_pi - log_pi_before, dtype))
        entropy_changes.append(entropy - entropy_before)
    return Validation(
        sequence_ids=batch.sequence_ids,
        rates=tuple(checks),
        slope=error_slope(checks) if len(checks) > 1 else None,
        entropy_change=tuple(entropy_changes),
        entropy_predicted=tuple(slope * rate for rate in learning_rates),
        dtype=str(dtype).removeprefix("torch."),
        rounding=_rounding(workspace, views, batch, predicted),
        after=None
        if after is None
        else _compare_with_checkpoint(workspace, predicted, log_pi_before, batch, after, dtype),
    )


def _rounding(
    workspace: KernelWorkspace, views: GradientViews, batch: GeneratedBatch, predicted: Tensor
) -> float | None:
    """How far the prediction in the study's own type is from `predicted`, relative to it."""
    own = next(views.computing_model.parameters()).dtype
    if torch.finfo(own).eps <= torch.finfo(torch.float32).eps:
        return None
    narrow = _predict(workspace, views.computing_model, batch) / workspace.step.lr
    return float((narrow - predicted).norm() / predicted.norm())


def _score_batch(model: nn.Module, batch: GeneratedBatch) -> tuple[Tensor, float]:
    """Score a batch: log π of each sequence and the mean entropy of a response token."""
    pairs = [(one.prompt_tokens, one.response_tokens) for one in batch]
    scores = SequenceProcessor(model, pad_id=batch.pad_id).score(pairs)
    entropies = [entropy for one in scores for entropy in one.entropies]
    log_pi = torch.tensor([sum(one.logprobs) for one in scores], dtype=torch.float64)
    return log_pi, sum(entropies) / len(entropies)


def _step_options(workspace: KernelWorkspace) -> Any:
    return {
        "update": workspace.batch,
        "weights": workspace.weights,
        "max_grad_norm": workspace.plan.max_grad_norm,
        "microbatch": workspace.plan.microbatch,
    }


def _predict(workspace: KernelWorkspace, model: nn.Module, batch: GeneratedBatch) -> Tensor:
    """Predicted Δ log π at the step's own learning rate, computed with `model`."""
    block = fisher_kernel(
        model,
        evaluation=batch,
        optimizer=workspace.require_views().adam_state(),
        preconditioner=workspace.plan.preconditioner,
        parameters=workspace.plan.parameters,
        lr=workspace.step.lr,
        want=["delta"],
        **_step_options(workspace),
    )
    return predicted_change(block).double().cpu()


def _compare_with_checkpoint(
    workspace: KernelWorkspace,
    predicted: Tensor,
    log_pi_before: Tensor,
    batch: GeneratedBatch,
    path: str | os.PathLike[str],
    dtype: torch.dtype,
) -> AfterCheck:
    """Compare with the checkpoint after the step, at the learning rate of the training."""
    parameter = next(workspace.require_views().model.parameters())
    model, tokenizer = load_checkpoint(
        path, device=str(parameter.device), dtype=str(dtype).removeprefix("torch.")
    )
    if tokenizer.fingerprint != workspace.fingerprint.tokenizer:
        raise ConfigError(f"checkpoint {os.fspath(path)} has another tokenizer than the update")
    actual = _score_batch(model, batch)[0] - log_pi_before
    check = RateCheck.compare(workspace.step.lr, predicted * workspace.step.lr, actual, dtype)
    return AfterCheck(checkpoint=os.fspath(path), **vars(check))
