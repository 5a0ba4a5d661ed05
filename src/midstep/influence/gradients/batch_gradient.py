"""Gradients by autograd: of the whole batch, and the directions that a step takes from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from midstep.influence.gradients.factors import accumulation_dtype
from midstep.influence.gradients.output_head import ResponseTokens, head_pass, logits_pass

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.gradient_recorder import RecordedBatch
    from midstep.influence.gradients.model_parts import ModelParts


def summed_gradient(
    parts: ModelParts, trained: Mapping[int, str], batch: RecordedBatch
) -> dict[str, Tensor]:
    """∂/∂θ of Σ seeds · log-probability over a side; the model must be `standing`."""
    named = {trained[id(p)]: p for p in parts.model.parameters() if id(p) in trained}
    sums = {
        name: torch.zeros_like(each, dtype=accumulation_dtype(each)) for name, each in named.items()
    }
    for each in named.values():
        each.requires_grad_()
    try:
        for index in range(len(batch.microbatches)):
            for name, grad in _microbatch_gradients(parts, trained, named, batch, index, sums):
                sums[name] += grad
    finally:
        for each in named.values():
            each.requires_grad_(False)  # noqa: FBT003 - its only argument
    return sums


def _microbatch_gradients(
    parts: ModelParts,
    trained: Mapping[int, str],
    named: Mapping[str, Tensor],
    batch: RecordedBatch,
    index: int,
    sums: Mapping[str, Tensor],
) -> Iterator[tuple[str, Tensor]]:
    microbatch, head = batch.microbatches[index], parts.head
    with torch.enable_grad():
        if parts.hidden is None or head is None:
            out = parts.logits(microbatch.input_ids)
        else:
            out = parts.hidden(microbatch.input_ids)
    responses = ResponseTokens.of(microbatch, batch.token_weights_NT, accumulation_dtype(out))
    if parts.hidden is None or head is None:
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
    batch.logp[index] = scored.logp_BR
    if out.requires_grad:
        grads = torch.autograd.grad(out, list(named.values()), scored.grad, allow_unused=True)
        for name, grad in zip(named, grads, strict=True):
            if grad is not None:
                yield name, grad


@torch.no_grad()
def score(parts: ModelParts, batch: RecordedBatch) -> None:
    """Token log-probabilities of a side, without gradients."""
    for index, microbatch in enumerate(batch.microbatches):
        if parts.hidden is None or parts.head is None:
            logits = parts.logits(microbatch.input_ids)
            responses = ResponseTokens.of(
                microbatch, batch.token_weights_NT, accumulation_dtype(logits)
            )
            batch.logp[index] = logits_pass(logits, responses).logp_BR
        else:
            hidden = parts.hidden(microbatch.input_ids)
            responses = ResponseTokens.of(
                microbatch, batch.token_weights_NT, accumulation_dtype(hidden)
            )
            scored = head_pass(hidden, parts.head, responses, with_bias=False, with_gradient=False)
            batch.logp[index] = scored.logp_BR


def square_norm(gradient: Mapping[str, Tensor]) -> float:
    """|G|² over all parameters."""
    return sum(float(each.to(torch.float64).square().sum()) for each in gradient.values())


def clipping_factor(norm: float, max_grad_norm: float | None) -> float:
    """C as `torch.nn.utils.clip_grad_norm_` takes it."""
    return 1.0 if max_grad_norm is None else min(1.0, max_grad_norm / (norm + 1e-6))
