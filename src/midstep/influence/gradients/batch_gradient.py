"""Gradients by autograd: of a weighted batch, and of single micro-batches as a reference.

Every function expects a model inside `eval_mode(model, frozen=True)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.factors import accumulation_dtype
from midstep.influence.gradients.model_parts import requires_gradients
from midstep.influence.gradients.output_head import ResponseTokens, head_pass, logits_pass

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.gradient_recorder import RecordedBatch
    from midstep.influence.gradients.model_parts import ModelParts
    from midstep.influence.gradients.sequences import Microbatch


def summed_gradient(
    parts: ModelParts, trained: Mapping[int, str], batch: RecordedBatch
) -> tuple[dict[str, Tensor], set[str]]:
    """∂/∂θ of Σ token weight · log-probability over a batch, and the parameters that it reaches.

    A parameter that it does not reach (of an expert that no token chose) has gradient None after a
    backward pass, and an optimizer skips it. Here its sum is 0, and its name is not in the set.
    """
    named = {trained[id(p)]: p for p in parts.model.parameters() if id(p) in trained}
    # Half-precision sums over many micro-batches lose the small ones, so sums are at least float32.
    sums = {
        name: torch.zeros_like(each, dtype=accumulation_dtype(each)) for name, each in named.items()
    }
    reached: set[str] = set()
    with requires_gradients(named.values()):
        for index in range(len(batch.microbatches)):
            reached |= _add_microbatch(parts, trained, named, batch, index, sums)
    return sums, reached


def _add_microbatch(
    parts: ModelParts,
    trained: Mapping[int, str],
    named: Mapping[str, Tensor],
    batch: RecordedBatch,
    index: int,
    sums: Mapping[str, Tensor],
) -> set[str]:
    """Add the gradient of a micro-batch, and return the names of the parameters it reaches."""
    # A function of its own, so that its graph and gradients are freed before the next forward pass.
    microbatch, head = batch.microbatches[index], parts.head
    with torch.enable_grad():
        out = parts.outputs(microbatch.input_ids)
    weight = bias = None
    if head is not None:
        weight, bias = trained.get(id(head.weight)), trained.get(id(head.bias))
    # Autograd does not see the head: `head_pass` adds its gradients itself, in blocks of tokens.
    scored = head_pass(
        out,
        head,
        ResponseTokens.from_microbatch(microbatch, batch.token_weights_NT, out),
        with_bias=bias is not None,
        weight_sum_VC=None if weight is None else sums[weight],
    )
    batch.logp[index] = scored.logp_BR
    reached = {name for name in (weight, bias) if name is not None}
    if bias is not None and scored.bias is not None:
        sums[bias].add_(scored.bias.grads_B.sum(0))
    # False when only the head is trained: then the hidden states have no graph.
    if out.requires_grad:
        grads = torch.autograd.grad(out, list(named.values()), scored.grad, allow_unused=True)
        for name, grad in zip(named, grads, strict=True):
            if grad is not None:
                sums[name].add_(grad)
                reached.add(name)
    return reached


@torch.no_grad()
def score(parts: ModelParts, batch: RecordedBatch) -> None:
    """Write the token log-probabilities of a batch to `batch.logp`, without gradients."""
    for index, microbatch in enumerate(batch.microbatches):
        out = parts.outputs(microbatch.input_ids)
        responses = ResponseTokens.from_microbatch(microbatch, batch.token_weights_NT, out)
        batch.logp[index] = head_pass(out, parts.head, responses, with_gradient=False).logp_BR


def score_gradients(
    parts: ModelParts, microbatch: Microbatch, token_weights_NT: Tensor, parameters: list[Tensor]
) -> tuple[Tensor | None, ...]:
    """∂/∂θ of a micro-batch's Σ token weight · log-probability, by autograd through whole logits.

    This is the slow reference: it uses neither hooks nor the split-off head. A parameter without
    influence on the logits has the gradient None.
    """
    with requires_gradients(parameters), torch.enable_grad():
        logits = parts.logits(microbatch.input_ids)
        if not logits.requires_grad:
            raise ConfigError(
                "no trained parameter influences the logits, so there is no gradient to compute: "
                "unfreeze the parameters that are trained"
            )
        responses = ResponseTokens.from_microbatch(microbatch, token_weights_NT, logits)
        logit_grads = logits_pass(logits, responses).grad
        return torch.autograd.grad(logits, parameters, logit_grads, allow_unused=True)


def square_norm(gradient: Mapping[str, Tensor]) -> float:
    """|G|² over all parameters."""
    return sum(float(each.to(torch.float64).square().sum()) for each in gradient.values())


def clipping_factor(norm: float, max_grad_norm: float | None) -> float:
    """The factor c that `torch.nn.utils.clip_grad_norm_` multiplies a gradient of this norm by."""
    # 1e-6 is torch's own constant: with another one the prediction would miss the true step.
    return 1.0 if max_grad_norm is None else min(1.0, max_grad_norm / (norm + 1e-6))
