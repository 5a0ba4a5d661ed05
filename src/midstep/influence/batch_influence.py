"""Which samples of a batch moved which sample's loss, for any model whose loss is per sample.

For samples i, j of the batch with gradients g of their losses, and the last step Δθ = −scale · c G
+ rest on the gradient G = Σ_j w_j g_j:

    contribution_ij = −c w_j  g_i · scale · g_j        change_i = Σ_j contribution_ij + g_i · rest

to first order in the learning rate, gradients taken where the step was made.

Shapes: B samples of the batch, S of them shown, P parameters.
"""

# ruff: noqa: N802, N803, N806, N815 - names end in their shape
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
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
"""Of gradients that are held at once: those of the samples that are shown."""
_MISMATCH_ABOVE = 0.3
"""From where on the optimizer's gradient counts as another than that of the samples."""
_CANCELLED_BELOW = 0.05
"""Of the batch's part: what is left of it when the rest takes it back."""
_LOSS_TOLERANCE = 1e-3
"""How near the batch's loss must be to the mean or sum of its samples' losses."""


@dataclass(frozen=True, kw_only=True)
class BatchInfluence:
    """What the last step did to the losses of some samples of its batch."""

    contribution_SS: Tensor
    """Row: the sample that was moved. Column: the sample that moved it. In units of the loss."""
    losses_S: Tensor
    """Of each shown sample where the gradients were taken: before the step, as far as the
    optimizer's state tells the weights of then."""
    others_S: Tensor
    """What the samples did that are not shown."""
    rest_S: Tensor
    """What momentum of earlier steps and weight decay did."""
    samples: int
    """B."""
    notes: tuple[str, ...] = ()
    """What to know about the numbers."""

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
    """Look at the step that `optimizers` made last, on `batch`. Nothing is changed.

    Modules are looked at in evaluation mode, where a sample's loss does not depend on the others.

    Args:
        model: as it stands after the step.
        optimizers: SGD, Adam or AdamW, with their state.
        loss_of: the mean (or sum) over samples of the loss: of the model and a batch.
        batch: what the step was made on.
        samples: the first so many are shown.
        grad_clip_norm: to which the loop clips its gradient.
        together: try to make all gradients at once.

    Raises:
        ConfigError: the batch has no samples to tell apart, its loss is neither mean nor sum of
            theirs, or the optimizer is of another kind.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> _ = nn.init.zeros_(model.weight)
    >>> x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [-1.0]])
    >>> def loss_of(model, batch):
    ...     return (model(batch[0]) - batch[1]).square().mean()
    >>> found = batch_influence(model, [optimizer], loss_of, (x, y))
    >>> found.contribution_SS.round(decimals=2)  # the two pull in opposite directions
    tensor([[-0.2000,  0.4000],
            [ 0.4000, -0.8000]])
    """
    count = sample_count(batch)
    if not count:
        raise ConfigError(
            "the tensors of this batch do not share a first side, so it has no samples to tell "
            "apart; give the loop batches of one length"
        )
    owners = parameter_owners(optimizers)
    parameters = {name: each for name, each in model.named_parameters() if id(each) in owners}
    if not parameters:
        raise ConfigError("no parameter of the model is moved by the optimizer")
    with eval_mode(model):
        return _measure_influence(
            model,
            optimizers,
            loss_of,
            batch,
            parameters,
            (count, samples),
            grad_clip_norm,
            together,
        )


def _measure_influence(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    loss_of: SampleLoss,
    batch: Any,
    parameters: Mapping[str, Tensor],
    sizes: tuple[int, int],
    grad_clip_norm: float | None,
    together: bool,
) -> BatchInfluence:
    count, requested = sizes
    size = sum(each.numel() for each in parameters.values())
    shown = min(requested, count, max(1, MAX_GRADIENT_BYTES // (4 * size)))
    weights = weights_before(optimizers, parameters)
    losses_B, grads_SP, summed_P = _gradients(
        model, loss_of, batch, weights, shown, together=together
    )
    weight = _sample_weight(loss_at(model, loss_of, batch, weights), losses_B)
    clip = _clip_factor(weight * summed_P, grad_clip_norm)
    scale_P, rest_P = last_step_parts(optimizers, parameters, weights, clip * weight * summed_P)
    scaled_SP = grads_SP * scale_P
    contribution_SS = -clip * weight * (scaled_SP @ grads_SP.T)
    batch_change_S = -clip * weight * (scaled_SP @ summed_P)
    return BatchInfluence(
        contribution_SS=contribution_SS,
        losses_S=losses_B[:shown],
        others_S=batch_change_S - contribution_SS.sum(1)
        if shown < count
        else torch.zeros_like(batch_change_S),
        rest_S=grads_SP @ rest_P,
        samples=count,
        notes=(
            *_notes(model, shown, requested, count),
            *_gradient_notes(
                list(parameters.values()),
                clip * weight * summed_P,
                batch_change_S,
                grads_SP @ rest_P,
            ),
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
    """All losses, the gradients of the first samples, and the sum over all."""
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
    """What a sample counts in the loss: 1/B in a mean, 1 in a sum; anything else is refused."""
    mean, total = float(losses_B.double().mean()), float(losses_B.double().sum())
    tolerance = _LOSS_TOLERANCE * max(abs(batch_loss), 1e-6)
    if abs(batch_loss - mean) <= tolerance:
        return 1.0 / len(losses_B)
    if abs(batch_loss - total) <= tolerance:
        return 1.0
    raise ConfigError(
        f"the loss of this batch, {batch_loss:.4g}, is neither the mean ({mean:.4g}) nor the sum "
        "of its samples' losses, so no sample has a loss of its own; influence needs a loss per "
        "sample"
    )


def _clip_factor(gradient_P: Tensor, grad_clip_norm: float | None) -> float:
    """What torch's clipping multiplies with."""
    if grad_clip_norm is None:
        return 1.0
    return min(1.0, grad_clip_norm / (float(gradient_P.norm()) + 1e-6))


def _notes(model: nn.Module, shown: int, requested: int, count: int) -> tuple[str, ...]:
    notes = []
    if shown < count:
        reason = "as asked" if shown == requested else "gradients of more would not fit into memory"
        notes.append(f"the first {shown} of {count} samples are shown, {reason}")
    kinds = {type(each).__name__ for each in model.modules()}
    mode_dependent = sorted(kind for kind in kinds if "Dropout" in kind or "BatchNorm" in kind)
    if mode_dependent:
        notes.append(
            f"{', '.join(mode_dependent)} is looked at in evaluation mode; the step itself was "
            "made in training mode"
        )
    return tuple(notes)


def _gradient_notes(
    parameters: Sequence[Tensor], gradient_P: Tensor, batch_change_S: Tensor, rest_S: Tensor
) -> tuple[str, ...]:
    """Whether the optimizer was handed another gradient than the mean over the samples.

    It is compared where it still stands in `.grad`. Elsewhere a part of the batch that the rest
    takes back nearly whole shows it.
    """
    optimizer_gradients = [each.grad for each in parameters]
    if all(each is not None for each in optimizer_gradients):
        optimizer_gradient_P = torch.cat(
            [each.flatten().to(gradient_P) for each in optimizer_gradients if each is not None]
        )
        mismatch = float(
            (optimizer_gradient_P - gradient_P).norm()
            / optimizer_gradient_P.norm().clamp_min(1e-30)
        )
    else:
        mismatch = 0.0
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
