"""How much each sample of a batch changed the loss of each other one, in the last step.

This works for any model whose loss is a mean or sum over samples.

For samples i, j of the batch with gradients g of their losses, and the last step Δθ = −scale · c G
+ rest on the gradient G = Σ_j w_j g_j:

    contribution_ij = −c w_j  g_i · scale · g_j        change_i = Σ_j contribution_ij + g_i · rest

to first order in the learning rate, gradients taken where the step was made.

Shapes: B samples of the batch, S of them shown, P parameters.
"""

# ruff: noqa: N802, N815 - names end in their shape
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.batch_gradient import clipping_factor
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.gradients.sample_gradients import (
    SampleLoss,
    loss_at,
    sample_count,
    sample_gradients,
)
from midstep.influence.optimizers.last_step import last_step_parts, parameter_owners, weights_before

if TYPE_CHECKING:
    from torch.optim import Optimizer

MAX_GRADIENT_BYTES = 1 << 30
"""Memory for the gradients of the samples that are shown."""
_MISMATCH_ABOVE = 0.3
"""Relative difference above which the optimizer's gradient is not that of the samples."""
_CANCELLED_BELOW = 0.05
"""Share of the batch's part below which momentum and decay cancel it, which is suspicious."""
_LOSS_TOLERANCE = 1e-3
"""Relative difference allowed between a batch's loss and the mean or sum over its samples."""


@dataclass(frozen=True, kw_only=True)
class BatchInfluence:
    """The change of some samples' losses by the last step, split by its causes."""

    contribution_SS: Tensor
    """Row: the sample whose loss changed. Column: the sample that changed it. Units of the loss."""
    losses_S: Tensor
    """Loss of each shown sample at the weights where gradients were taken: before the step, if
    the optimizer's state allows to compute them."""
    others_S: Tensor
    """The change by samples that are not shown."""
    rest_S: Tensor
    """The change by momentum of earlier steps and by weight decay."""
    samples: int
    """Samples of the batch, B."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader of the numbers needs."""

    @property
    def change_S(self) -> Tensor:
        """The whole change of each shown sample's loss."""
        return self.contribution_SS.sum(1) + self.others_S + self.rest_S


def batch_influence(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    loss_of: SampleLoss,
    batch: Any,
    *,
    samples: int = 64,
    grad_clip_norm: float | None = None,
    together: bool = True,
) -> BatchInfluence:
    """Explain the last step of `optimizers`, made on `batch`. Nothing is changed.

    Gradients are taken in evaluation mode, where a sample's loss does not depend on the others.

    Args:
        model: the model after the step.
        optimizers: SGD, Adam or AdamW, with their state.
        loss_of: computes the mean (or sum) of the loss over samples, from the model and a batch.
        batch: the batch of the step.
        samples: how many samples are shown, from the first.
        grad_clip_norm: norm to which the loop clips its gradient.
        together: try to compute all gradients at once.

    Raises:
        ConfigError: the tensors of the batch differ in length, its loss is neither mean nor sum
            over samples, or the optimizer is not supported.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> _ = nn.init.zeros_(model.weight)
    >>> x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [-1.0]])
    >>> def loss_of(model, batch):
    ...     return (model(batch[0]) - batch[1]).square().mean()
    >>> influence = batch_influence(model, [optimizer], loss_of, (x, y))
    >>> influence.contribution_SS.round(decimals=2)  # the two pull in opposite directions
    tensor([[-0.2000,  0.4000],
            [ 0.4000, -0.8000]])
    """
    count = sample_count(batch)
    if not count:
        raise ConfigError(
            "the tensors of this batch differ in length, so it has no samples to tell apart; use "
            "batches whose tensors have the same first dimension"
        )
    owners = parameter_owners(optimizers)
    parameters = {name: each for name, each in model.named_parameters() if id(each) in owners}
    if not parameters:
        raise ConfigError(
            "the optimizer trains no parameter of the model; give the optimizer of this model"
        )
    size = sum(each.numel() for each in parameters.values())
    shown = min(samples, count, max(1, MAX_GRADIENT_BYTES // (4 * size)))
    # The step was made before now: its gradients are those at the weights before it.
    weights = weights_before(optimizers, parameters)
    with eval_mode(model):
        losses_B, grads_SP, summed_P = _gradients(
            model, loss_of, batch, weights, shown, together=together
        )
        weight = _sample_weight(loss_at(model, loss_of, batch, weights), losses_B)
    clip = clipping_factor(float((weight * summed_P).norm()), grad_clip_norm)
    gradient_P = clip * weight * summed_P
    scale_P, rest_P = last_step_parts(optimizers, parameters, weights, gradient_P)
    scaled_SP = grads_SP * scale_P
    contribution_SS = -clip * weight * (scaled_SP @ grads_SP.T)
    batch_change_S = -clip * weight * (scaled_SP @ summed_P)
    # Exactly zero where all samples are shown, not the rounding of a difference.
    others_S = torch.zeros_like(batch_change_S)
    if shown < count:
        others_S = batch_change_S - contribution_SS.sum(1)
    rest_S = grads_SP @ rest_P
    return BatchInfluence(
        contribution_SS=contribution_SS,
        losses_S=losses_B[:shown],
        others_S=others_S,
        rest_S=rest_S,
        samples=count,
        notes=(
            *_notes(model, shown, samples, count),
            *_gradient_notes(list(parameters.values()), gradient_P, batch_change_S, rest_S),
        ),
    )


def _gradients(
    model: nn.Module,
    loss_of: SampleLoss,
    batch: Any,
    weights: Mapping[str, Tensor],
    shown: int,
    *,
    together: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All losses, the gradients of the first `shown` samples, and the sum over all samples."""
    losses, first_gradients = [], []
    collected, summed_P = 0, None
    for losses_C, grads_CP in sample_gradients(model, loss_of, batch, weights, together=together):
        losses.append(losses_C)
        summed_P = grads_CP.sum(0) if summed_P is None else summed_P + grads_CP.sum(0)
        if collected < shown:
            first_gradients.append(grads_CP[: shown - collected])
            collected += len(first_gradients[-1])
    assert summed_P is not None  # noqa: S101 - there is at least one sample
    return torch.cat(losses), torch.cat(first_gradients), summed_P


def _sample_weight(batch_loss: float, losses_B: Tensor) -> float:
    """The weight of a sample in the loss: 1/B in a mean, 1 in a sum. Others raise an error."""
    mean, total = float(losses_B.double().mean()), float(losses_B.double().sum())
    tolerance = _LOSS_TOLERANCE * max(abs(batch_loss), 1e-6)
    if abs(batch_loss - mean) <= tolerance:
        return 1.0 / len(losses_B)
    if abs(batch_loss - total) <= tolerance:
        return 1.0
    raise ConfigError(
        f"the loss of this batch, {batch_loss:.4g}, is neither the mean ({mean:.4g}) nor the sum "
        "of its samples' losses, so samples have no separate losses; influence needs a loss per "
        "sample"
    )


def _notes(model: nn.Module, shown: int, requested: int, count: int) -> tuple[str, ...]:
    notes = []
    if shown < count:
        reason = "as asked" if shown == requested else "gradients of more would not fit into memory"
        notes.append(f"the first {shown} of {count} samples are shown, {reason}")
    kinds = {type(each).__name__ for each in model.modules()}
    # By name, so that lazy and synchronized variants count too.
    mode_dependent = sorted(kind for kind in kinds if "Dropout" in kind or "BatchNorm" in kind)
    if mode_dependent:
        notes.append(
            f"{', '.join(mode_dependent)} was evaluated in evaluation mode; the step itself was "
            "made in training mode"
        )
    return tuple(notes)


def _gradient_notes(
    parameters: Sequence[Tensor], gradient_P: Tensor, batch_change_S: Tensor, rest_S: Tensor
) -> tuple[str, ...]:
    """A note when the optimizer received another gradient than that of the samples.

    The two are compared while `.grad` still holds it. Otherwise it shows when momentum and decay
    cancel the batch's part almost completely.
    """
    mismatch = 0.0
    kept = [each.grad.flatten().to(gradient_P) for each in parameters if each.grad is not None]
    if len(kept) == len(parameters):
        kept_P = torch.cat(kept)
        mismatch = float((kept_P - gradient_P).norm() / kept_P.norm().clamp_min(1e-30))
    is_cancelled = float((batch_change_S + rest_S).norm()) < _CANCELLED_BELOW * float(
        batch_change_S.norm()
    )
    if mismatch <= _MISMATCH_ABOVE and not is_cancelled:
        return ()
    size = f", by {mismatch:.0%}" if mismatch > _MISMATCH_ABOVE else ""
    return (
        f"the optimizer got another gradient than that of this loss{size}: a penalty, a "
        "competition, dropout or clipping of the loop's own changes it; the parts are not those of "
        "the true step then, and the whole change of a sample is a rough one",
    )
