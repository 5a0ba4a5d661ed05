"""Check a prediction: make one true optimizer step on a copy, and measure the change.

The step is made by a copy of the user's own optimizer: its class, groups and state. The formulas of
the kernel have no part in it, so a prediction for another optimizer cannot be confirmed. Weights
and state are float32 copies at least, because a small step disappears in the rounding of bfloat16.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.batch_gradient import score, summed_gradient
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.kernel_inputs import trained_parameters
from midstep.influence.kernels.kernel_job import KernelJob
from midstep.influence.optimizers.described_optimizers import is_adam, is_sgd
from midstep.influence.optimizers.optimizer_copy import (
    check_copyable,
    copy_optimizer,
    scale_learning_rates,
    step_without_hooks,
)

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.kernels.kernel_block import KernelBlock


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


def step_dtype(model: nn.Module, wanted: torch.dtype | None = None) -> torch.dtype:
    """The type of the copies that a true step is made on: float32, or wider if the model is.

    >>> step_dtype(torch.nn.Linear(1, 1).bfloat16()), step_dtype(torch.nn.Linear(1, 1).double())
    (torch.float32, torch.float64)
    """
    dtype = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    return dtype if wanted is None else torch.promote_types(dtype, wanted)


def wide_model(model: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """The model itself if it is float32 or wider (at least `dtype`), else a copy that is."""
    floor = step_dtype(model, dtype)
    tensors = chain(model.parameters(), model.buffers())
    floats = {each.dtype for each in tensors if each.is_floating_point()}
    if all(torch.promote_types(each, floor) == each for each in floats):
        return model
    return _wide_copy(model, floor)


def _wide_copy(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy without gradients whose floats have at least `dtype`; tied parameters stay tied."""
    copied = copy.deepcopy(model)
    copied.zero_grad(set_to_none=True)
    for each in chain(copied.parameters(), copied.buffers()):
        if each.is_floating_point():
            each.data = each.data.to(torch.promote_types(each.dtype, dtype))
    return copied


def actual_change(
    model: nn.Module,
    optimizer: Optimizer | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    evaluation: Any,
    *,
    microbatch: int | None = None,
    **options: Any,
) -> Tensor:
    """[nE] change of log π after one true step of a copy of the optimizer, on a copy of the model.

    Both copies are float32, or float64 for a float64 model.

    Args:
        model: the model before the step; it is not changed.
        optimizer: any that steps once on dense gradients, with its state; None: plain gradient
            descent.
        update: U.
        weights: w; None as in `fisher_kernel`.
        evaluation: E.
        microbatch: the most sequences of one pass.
        **options: lr, max_grad_norm, clip_factor, fresh_state and dtype of `stepped_copy`.
    """
    wide = wide_model(model, options.get("dtype"))
    before = log_probabilities(wide, evaluation, microbatch=microbatch)
    stepped_model = stepped_copy(
        model, optimizer, update, weights, microbatch=microbatch, **options
    )
    return log_probabilities(stepped_model, evaluation, microbatch=microbatch) - before


def stepped_copy(
    model: nn.Module,
    optimizer: Optimizer | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    *,
    lr: float | None = None,
    max_grad_norm: float | None = None,
    clip_factor: float | None = None,
    fresh_state: bool = False,
    microbatch: int | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """A copy of the model after one true step on the update, in float32 or wider.

    Args:
        model: the model before the step; it is not changed.
        optimizer: any that steps once on dense gradients, with its state; None: plain gradient
            descent.
        update: U.
        weights: w; None as in `fisher_kernel`.
        lr: η of the fastest group; the other groups keep their ratio to it.
        max_grad_norm: clip the gradient as a trainer does.
        clip_factor: or multiply the gradient by this number.
        fresh_state: accept an Adam optimizer that has not made a step yet.
        microbatch: the most sequences of one pass.
        dtype: type of the copies, if float32 is not enough.
    """
    if optimizer is not None:
        check_copyable(optimizer)
        _check_state(optimizer, fresh=fresh_state)
    stepped_model = _wide_copy(model, step_dtype(model, dtype))
    step_optimizer = _optimizer_of_copy(optimizer, model, stepped_model)
    if lr is not None:
        scale_learning_rates(step_optimizer, lr)
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
        batch = job.loss_batch(with_unweighted=True)
        ascent, reached = summed_gradient(job.parts, job.trained, batch)
    stepped = {id(each) for group in step_optimizer.param_groups for each in group["params"]}
    # The others keep the gradient None, as after a trainer's backward pass, and are skipped.
    with_gradient = [
        (name, each)
        for name, each in job.parameters.items()
        if name in reached and id(each) in stepped
    ]
    for name, each in with_gradient:
        # `ascent` is Σ_j w_j g_j; the loss −Σ_j w_j log π_j has the opposite gradient.
        each.grad = -ascent[name] * (1.0 if clip_factor is None else clip_factor)
    if max_grad_norm is not None and clip_factor is None:
        torch.nn.utils.clip_grad_norm_([each for _, each in with_gradient], max_grad_norm)
    step_without_hooks(step_optimizer)
    stepped_model.zero_grad(set_to_none=True)
    return stepped_model


def _check_state(optimizer: Optimizer, *, fresh: bool) -> None:
    if is_adam(optimizer) and not fresh and not any(optimizer.state.values()):
        raise ConfigError(
            "the optimizer has no state: load the state saved with this checkpoint, make a step "
            "first, or pass fresh_state=True to check the first step"
        )


def _optimizer_of_copy(
    optimizer: Optimizer | None, model: nn.Module, copied_model: nn.Module
) -> Optimizer:
    """A copy of the optimizer for a copy of the model; plain gradient descent without one."""
    if optimizer is None:
        trained = [each for each in copied_model.parameters() if each.requires_grad]
        return torch.optim.SGD(trained, lr=1.0)
    copies = dict(copied_model.named_parameters())
    return copy_optimizer(
        optimizer, {id(each): copies[name] for name, each in model.named_parameters()}
    )


@dataclass(frozen=True, kw_only=True)
class RateCheck:
    """Predicted and actual change at one learning rate."""

    lr: float
    predicted: Tensor
    actual: Tensor
    relative_error: float
    """|predicted − actual| / |actual|, over all sequences."""
    correlation: float
    dtype: str = "float32"
    """Type of the copies of weights and state that the step was made on."""

    @classmethod
    def compare(
        cls, lr: float, predicted: Tensor, actual: Tensor, dtype: torch.dtype = torch.float32
    ) -> RateCheck:
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
            dtype=str(dtype).removeprefix("torch."),
        )


def check_learning_rates(
    model: nn.Module,
    optimizer: Optimizer | None,
    update: Any,
    weights: Tensor | Sequence[float] | None,
    evaluation: Any,
    *,
    rates: Sequence[float],
    block: KernelBlock | None = None,
    **options: Any,
) -> list[RateCheck]:
    """Compare prediction and true step at several learning rates. The error should fall like η.

    The step is made by a copy of the optimizer, on float32 copies of weights and state (float64
    for a float64 model). So is the prediction, unless `block` is given.

    Args:
        model: the model before the step.
        optimizer: with its state.
        update: U.
        weights: w.
        evaluation: E.
        rates: learning rates to try.
        block: a prediction made before, checked as it is; None computes one (Δ alone).
        **options: as in `actual_change` (max_grad_norm, clip_factor, fresh_state, microbatch).
    """
    if optimizer is not None:
        check_copyable(optimizer)
    dtype = step_dtype(model)
    if block is None:
        plain = optimizer is None or is_sgd(optimizer)
        block = fisher_kernel(
            model,
            update,
            evaluation,
            optimizer=optimizer,
            preconditioner="sgd" if plain else "adam_post",
            weights=weights,
            want=["delta"],
            dtype=dtype,
            **options,
        )
    checks = []
    for lr in rates:
        predicted = predicted_change(block, lr=lr).double()
        actual = actual_change(
            model, optimizer, update, weights, evaluation, lr=lr, **options
        ).double()
        checks.append(RateCheck.compare(lr, predicted, actual, dtype))
    return checks


def error_slope(checks: Sequence[RateCheck]) -> float:
    """Slope of log(relative error) over log(η); 1 when the prediction is exact to first order."""
    points = [(math.log(each.lr), math.log(each.relative_error)) for each in checks]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points)
