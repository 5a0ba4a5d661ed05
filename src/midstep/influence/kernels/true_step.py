"""Check a prediction: make one true optimizer step on a copy, and measure the change."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.batch_gradient import score, summed_gradient
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.kernel_inputs import (
    bind_adam_state,
    sgd_learning_rate,
    sgd_weight_decay,
    trained_parameters,
)
from midstep.influence.kernels.kernel_job import KernelJob

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.kernels.kernel_block import KernelBlock
    from midstep.influence.optimizers.adam_state import AdamState


def predicted_change(block: KernelBlock, *, lr: float | None = None) -> Tensor:
    """[nE] predicted Δ log π of a block (of U itself without E), at another η if given.

    Δ is linear in η: AdamW multiplies its whole step by the learning rate.
    """
    change = block.delta_logpi if block.delta_logpi is not None else block.delta_logpi_u
    if change is None:
        raise ConfigError("this block has no Δ: request it with want=('delta', …)")
    return change if lr is None else change * (lr / block.lr)


def log_probabilities(model: nn.Module, batch: Any, *, microbatch: int | None = None) -> Tensor:
    """[N] log π of each response.

    >>> from midstep.influence.gradients.sequences import SequenceBatch
    >>> from midstep.models.causal_lm import CausalLM, CausalLMConfig
    >>> model = CausalLM(CausalLMConfig(vocab_size=11, width=8, layers=1, heads=2))
    >>> batch = SequenceBatch(torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 1]]))
    >>> bool(log_probabilities(model, batch)[0] < 0)
    True
    """
    trained = trained_parameters(model, None)
    ones = torch.ones(len(batch))
    with eval_mode(model, frozen=True), torch.no_grad():
        job = KernelJob(
            model, trained, batch, weights=ones, microbatch=microbatch, check_coverage=False
        )
        score(job.parts, job.update)
        return job.update.log_pi()


def actual_change(
    model: nn.Module,
    optimizer: Optimizer | AdamState | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    evaluation: Any,
    *,
    microbatch: int | None = None,
    **options: Any,
) -> Tensor:
    """[nE] change of log π after one true step of AdamW (or SGD) on a copy of the model.

    Args:
        model: the model before the step; it is not changed.
        optimizer: with its state; None or one without moments: plain gradient descent.
        update: U.
        weights: w; None as in `fisher_kernel`.
        evaluation: E.
        microbatch: the most sequences of one pass.
        **options: lr, max_grad_norm, clip_factor and fresh_state of `stepped_copy`.
    """
    before = log_probabilities(model, evaluation, microbatch=microbatch)
    stepped_model = stepped_copy(
        model, optimizer, update, weights, microbatch=microbatch, **options
    )
    return log_probabilities(stepped_model, evaluation, microbatch=microbatch) - before


def stepped_copy(
    model: nn.Module,
    optimizer: Optimizer | AdamState | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    *,
    lr: float | None = None,
    max_grad_norm: float | None = None,
    clip_factor: float | None = None,
    fresh_state: bool = False,
    microbatch: int | None = None,
) -> nn.Module:
    """A copy of the model after one true step on the update.

    Args:
        model: the model before the step; it is not changed.
        optimizer: with its state; None or one without moments: plain gradient descent.
        update: U.
        weights: w; None as in `fisher_kernel`.
        lr: η of the fastest group; the other groups keep their ratio to it.
        max_grad_norm: clip the gradient as a trainer does.
        clip_factor: or multiply the gradient by this number.
        fresh_state: accept an optimizer that has not made a step yet.
        microbatch: the most sequences of one pass.
    """
    adam = optimizer is not None and sgd_learning_rate(optimizer) is None
    state = bind_adam_state(optimizer, model, fresh=fresh_state, needed=adam)
    stepped_model = copy.deepcopy(model)
    trained = trained_parameters(stepped_model, None)
    with eval_mode(stepped_model, frozen=True), torch.no_grad():
        job = KernelJob(
            stepped_model,
            trained,
            update,
            weights=weights,
            microbatch=microbatch,
            check_coverage=False,
        )
        ascent = summed_gradient(job.parts, job.trained, job.loss_batch())
    for name, each in job.parameters.items():
        # `ascent` is Σ_j w_j g_j; the loss −Σ_j w_j log π_j has the opposite gradient.
        each.grad = -ascent[name] * (1.0 if clip_factor is None else clip_factor)
    if max_grad_norm is not None and clip_factor is None:
        torch.nn.utils.clip_grad_norm_(job.parameters.values(), max_grad_norm)
    if state is not None:
        step_optimizer: torch.optim.Optimizer = _adamw(state, job.parameters, lr)
    else:
        decay = sgd_weight_decay(optimizer, model)
        groups = [
            {"params": [each], "weight_decay": decay.get(name, 0.0)}
            for name, each in job.parameters.items()
        ]
        step_optimizer = torch.optim.SGD(groups, lr=lr or sgd_learning_rate(optimizer) or 1.0)
    step_optimizer.step()
    return stepped_model


def _adamw(state: AdamState, parameters: dict[str, Any], lr: float | None) -> torch.optim.AdamW:
    """A `torch.optim.AdamW` for these parameters, with the state of each by name."""
    state.require(list(parameters))
    states = {name: state.parameters[name] for name in parameters}
    # One group per parameter: settings and step count may differ between parameters.
    ratio = 1.0 if lr is None else lr / max(each.lr for each in states.values())
    groups = [
        {
            "params": [parameter],
            "lr": states[name].lr * ratio,
            "betas": (states[name].beta1, states[name].beta2),
            "eps": states[name].eps,
            "weight_decay": states[name].weight_decay,
        }
        for name, parameter in parameters.items()
    ]
    optimizer = torch.optim.AdamW(groups)
    for name, parameter in parameters.items():
        # Without a step AdamW creates its own zeros.
        if states[name].step:
            optimizer.state[parameter] = {
                "step": torch.tensor(float(states[name].step)),
                "exp_avg": states[name].exp_avg.detach().clone().to(parameter),
                "exp_avg_sq": states[name].exp_avg_sq.detach().clone().to(parameter),
            }
    return optimizer


@dataclass(frozen=True, kw_only=True)
class RateCheck:
    """Predicted and actual change at one learning rate."""

    lr: float
    predicted: Tensor
    actual: Tensor
    relative_error: float
    """|predicted − actual| / |actual|, over all sequences."""
    correlation: float

    @classmethod
    def compare(cls, lr: float, predicted: Tensor, actual: Tensor) -> RateCheck:
        """The check of one learning rate from the two changes, [n] each."""
        correlation = float("nan")
        if len(actual) > 1:
            correlation = float(torch.corrcoef(torch.stack([predicted, actual]))[0, 1])
        return cls(
            lr=lr,
            predicted=predicted,
            actual=actual,
            relative_error=float((predicted - actual).norm() / actual.norm()),
            correlation=correlation,
        )


def check_learning_rates(
    model: nn.Module,
    optimizer: Optimizer | AdamState | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    evaluation: Any,
    *,
    rates: Sequence[float],
    block: KernelBlock | None = None,
    **options: Any,
) -> list[RateCheck]:
    """Compare prediction and true step at several learning rates. The error should fall like η.

    Args:
        model: the model before the step.
        optimizer: with its state.
        update: U.
        weights: w.
        evaluation: E.
        rates: learning rates to try.
        block: a prediction made before; None computes one (Δ alone).
        **options: as in `actual_change` (max_grad_norm, clip_factor, fresh_state, microbatch).
    """
    if block is None:
        is_sgd = optimizer is None or sgd_learning_rate(optimizer) is not None
        block = fisher_kernel(
            model,
            update,
            evaluation,
            optimizer=optimizer,
            preconditioner="sgd" if is_sgd else "adam_post",
            weights=weights,
            want=["delta"],
            **options,
        )
    checks = []
    for lr in rates:
        predicted = predicted_change(block, lr=lr).double()
        actual = actual_change(
            model, optimizer, update, weights, evaluation, lr=lr, **options
        ).double()
        checks.append(RateCheck.compare(lr, predicted, actual))
    return checks


def error_slope(checks: Sequence[RateCheck]) -> float:
    """Slope of log(relative error) over log(η); 1 when the prediction is exact to first order."""
    points = [(math.log(each.lr), math.log(each.relative_error)) for each in checks]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points)
