"""How much each sample of a batch changed the loss of each other one, in the last step.

This works for any model whose loss is a mean or sum over samples; a mean may have weights, such as
the numbers of tokens in a language model.

For samples i, j of the batch with gradients g of their losses, and the last step Δθ = −scale · c G
+ rest on the gradient G = Σ_j w_j g_j:

    contribution_ij = −c w_j  g_i · scale · g_j        change_i = Σ_j contribution_ij + g_i · rest

to first order in the learning rate, gradients taken where the step was made.

Shapes: B samples of the batch, S of them shown, P parameters.
"""

# ruff: noqa: N802, N815 - names end in their shape
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.batch_gradient import clipping_factor
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.gradients.sample_gradients import SampleLoss, sample_count
from midstep.influence.gradients.sample_shares import WeightedGradients, weighted_gradients
from midstep.influence.optimizers.last_step import last_step_parts, parameter_owners, weights_before

if TYPE_CHECKING:
    from torch.optim import Optimizer

MAX_GRADIENT_BYTES = 1 << 30
"""Memory for the gradients of the samples that are shown."""
_MISMATCH_ABOVE = 0.3
"""Relative difference above which the optimizer's gradient is not that of the samples."""
_CANCELLED_BELOW = 0.05
"""Share of the batch's part below which momentum and decay cancel it, which is suspicious."""


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
    has_equal_shares: bool = True
    """Whether all samples have the same share in the loss of the batch."""
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
    micro_batches: Sequence[int] | None = None,
) -> BatchInfluence:
    """Explain the last step of `optimizers`, made on `batch`. Nothing is changed.

    Gradients are taken in evaluation mode, where a sample's loss does not depend on the others.

    Args:
        model: the model after the step.
        optimizers: exactly SGD, Adam or AdamW, with their state.
        loss_of: computes the loss of a batch: a sum or a mean over samples, with equal weights or
            others. The weights follow from its values on smaller batches.
        batch: the batch of the step.
        samples: how many samples are shown, from the first.
        grad_clip_norm: norm to which the loop clips its gradient.
        together: try to compute all gradients at once.
        micro_batches: sizes of the micro-batches that `batch` was joined from, if the step
            accumulated the mean of their losses.

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
        weighted = weighted_gradients(
            model,
            loss_of,
            batch,
            weights,
            kept=shown,
            together=together,
            micro_batches=micro_batches,
        )
    grads_SP, total_P = weighted.rows_SP, weighted.total_P
    clip = clipping_factor(float(total_P.norm()), grad_clip_norm)
    gradient_P = clip * total_P
    scale_P, rest_P = last_step_parts(optimizers, parameters, weights, gradient_P)
    scaled_SP = grads_SP * scale_P
    contribution_SS = -clip * weighted.shares_B[:shown] * (scaled_SP @ grads_SP.T)
    batch_change_S = -clip * (scaled_SP @ total_P)
    # Exactly zero where all samples are shown, not the rounding of a difference.
    others_S = torch.zeros_like(batch_change_S)
    if shown < count:
        others_S = batch_change_S - contribution_SS.sum(1)
    rest_S = grads_SP @ rest_P
    return BatchInfluence(
        contribution_SS=contribution_SS,
        losses_S=weighted.losses_B[:shown],
        others_S=others_S,
        rest_S=rest_S,
        samples=count,
        has_equal_shares=weighted.is_uniform,
        notes=(
            *_notes(model, shown, samples, count),
            *_share_notes(weighted),
            *_clipping_notes(len(owners) - len(parameters), grad_clip_norm),
            *_gradient_notes(list(parameters.values()), gradient_P, batch_change_S, rest_S),
        ),
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


def _share_notes(samples: WeightedGradients) -> tuple[str, ...]:
    """A note when the loss is a mean with weights."""
    if samples.is_uniform:
        return ()
    least, most = float(samples.shares_B.min()), float(samples.shares_B.max())
    return (
        f"samples have different shares in the loss, from {least:.3g} to {most:.3g}: it is a mean "
        "with weights, such as the numbers of tokens",
    )


def _clipping_notes(outside: int, grad_clip_norm: float | None) -> tuple[str, ...]:
    """A note when gradients are clipped together with gradients that are not computed here."""
    if not outside or grad_clip_norm is None:
        return ()
    return (
        f"the optimizer also trains {outside} tensor(s) outside of the model; their gradients are "
        "not part of the norm that was used for clipping here",
    )


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
