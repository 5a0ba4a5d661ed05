"""Gradients by autograd: of the whole batch, and the directions that a step takes from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from midstep.influence.factors import sum_type
from midstep.influence.head import Responses, head_pass, logits_pass
from midstep.influence.tiles import Tile

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.anatomy import Anatomy
    from midstep.influence.passes import Side
    from midstep.influence.preconditioners import Preconditioner

__all__ = [
    "Directions",
    "clip_factor_of",
    "directions_of",
    "score",
    "square_norm",
    "summed_gradient",
]


def summed_gradient(anatomy: Anatomy, trained: Mapping[int, str], side: Side) -> dict[str, Tensor]:
    """∂/∂θ of Σ seeds · log-probability over a side; the model must be `standing`."""
    named = {trained[id(p)]: p for p in anatomy.model.parameters() if id(p) in trained}
    sums = {name: torch.zeros_like(each, dtype=sum_type(each)) for name, each in named.items()}
    for each in named.values():
        each.requires_grad_()
    try:
        for index in range(len(side.microbatches)):
            for name, grad in _gradient_of(anatomy, trained, named, side, index, sums):
                sums[name] += grad
    finally:
        for each in named.values():
            each.requires_grad_(False)  # noqa: FBT003 - its only argument
    return sums


def _gradient_of(
    anatomy: Anatomy,
    trained: Mapping[int, str],
    named: Mapping[str, Tensor],
    side: Side,
    index: int,
    sums: Mapping[str, Tensor],
) -> Iterator[tuple[str, Tensor]]:
    microbatch, head = side.microbatches[index], anatomy.head
    with torch.enable_grad():
        if anatomy.hidden is None or head is None:
            out = anatomy.logits(microbatch.input_ids)
        else:
            out = anatomy.hidden(microbatch.input_ids)
    responses = Responses.of(microbatch, side.seeds_NT, sum_type(out))
    if anatomy.hidden is None or head is None:
        scored = logits_pass(out, responses)
    else:
        weight, bias = trained.get(id(head.weight)), trained.get(id(head.bias))
        scored = head_pass(
            out,
            head,
            responses,
            with_bias=bias is not None,
            weight_sum_VC=None if weight is None else sums[weight],
        )
        if bias is not None and scored.bias is not None:
            yield bias, scored.bias.grads_B.sum(0)
    side.logp[index] = scored.logp_BR
    if out.requires_grad:
        grads = torch.autograd.grad(out, list(named.values()), scored.grad, allow_unused=True)
        for name, grad in zip(named, grads, strict=True):
            if grad is not None:
                yield name, grad


@torch.no_grad()
def score(anatomy: Anatomy, side: Side) -> None:
    """Token log-probabilities of a side, without gradients."""
    for index, microbatch in enumerate(side.microbatches):
        if anatomy.hidden is None or anatomy.head is None:
            logits = anatomy.logits(microbatch.input_ids)
            responses = Responses.of(microbatch, side.seeds_NT, sum_type(logits))
            side.logp[index] = logits_pass(logits, responses).logp_BR
        else:
            hidden = anatomy.hidden(microbatch.input_ids)
            responses = Responses.of(microbatch, side.seeds_NT, sum_type(hidden))
            scored = head_pass(
                hidden, anatomy.head, responses, with_bias=False, with_gradient=False
            )
            side.logp[index] = scored.logp_BR


def square_norm(gradient: Mapping[str, Tensor]) -> float:
    """|G|² over all parameters."""
    return sum(float(each.to(torch.float64).square().sum()) for each in gradient.values())


def clip_factor_of(norm: float, max_grad_norm: float | None) -> float:
    """C as `torch.nn.utils.clip_grad_norm_` takes it."""
    return 1.0 if max_grad_norm is None else min(1.0, max_grad_norm / (norm + 1e-6))


@dataclass(frozen=True)
class Directions:
    """What a step adds to the weights per unit of η, in three parts, by parameter name."""

    kernel: dict[str, Tensor]
    """rate · c · D Σ_j w_j g_j."""
    momentum: dict[str, Tensor]
    decay: dict[str, Tensor]

    def total(self) -> dict[str, Tensor]:
        """The sum of the three."""
        return {
            name: each + self.momentum[name] + self.decay[name]
            for name, each in self.kernel.items()
        }

    def parts(self) -> dict[str, dict[str, Tensor]]:
        """Each part by its name."""
        return {"kernel": self.kernel, "momentum": self.momentum, "decay": self.decay}


def directions_of(
    ascent: Mapping[str, Tensor], parameters: Mapping[str, Tensor], preconditioner: Preconditioner
) -> Directions:
    """The three directions, given `ascent` = Σ_j w_j g_j = −G."""
    kernel, momentum, decay = {}, {}, {}
    factor = preconditioner.rate * preconditioner.clip_factor
    for name, each in ascent.items():
        weights = parameters[name].detach()
        columns = each.shape[1] if each.dim() == 2 else 1
        tile = Tile(name, 0, 0, each.numel() // columns, columns, sum_type(each), each.device)
        part = tile.of(each)
        diagonal = preconditioner.diagonal(tile, -part)
        moved, decayed = preconditioner.drift(tile, tile.of(weights), diagonal)
        kernel[name] = (factor * diagonal * part).reshape(each.shape)
        momentum[name] = moved.reshape(each.shape)
        decay[name] = decayed.reshape(each.shape)
    return Directions(kernel, momentum, decay)
