"""Log-probabilities of response tokens and their gradients, without all logits in memory.

Logits are computed for one block of tokens at a time. For S = Σ_t a_t log p(x_t) with token
weights a: ∂S/∂logits_t = a_t (onehot(x_t) − softmax_t).

Shapes: B sequences, T tokens, R response tokens of the longest (weight 0 beyond), C values of a
token, V vocabulary, K tokens of a block.
"""

# ruff: noqa: N815 - names end in their shape
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from midstep.influence.gradients.execution import fused
from midstep.influence.gradients.factors import (
    HeadFactor,
    StoredFactor,
    accumulation_dtype,
    matmul_wide,
    row_dots,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.influence.gradients.sequences import Microbatch

BLOCK_BYTES_CPU = 64 * 2**20
BLOCK_BYTES_GPU = 4 * 2**30  # of 139 GiB; fewer, larger products


@dataclass(frozen=True)
class ResponseTokens:
    """Which hidden states predict which response tokens, moved together to the left."""

    positions_BR: Tensor
    """Index of the hidden state before each response token."""
    targets_BR: Tensor
    token_weights_BR: Tensor
    """Weight of each token in the sequence's score; 0 at padding."""
    counted_BR: Tensor
    """1 at real response tokens, 0 at padding."""

    @classmethod
    def from_microbatch(
        cls, microbatch: Microbatch, token_weights_NT: Tensor, outputs: Tensor
    ) -> ResponseTokens:
        """The responses of a micro-batch; the type of `outputs` decides that of the weights."""
        dtype = accumulation_dtype(outputs)
        mask_BT = microbatch.response_mask
        longest = int(mask_BT.sum(1).max())
        if mask_BT.is_cuda:  # tensor cores need sizes that are multiples of 8
            longest = min(mask_BT.shape[1], -(-longest // 8) * 8)
        # A stable sort of the mask moves response tokens to the left and keeps their order.
        tokens_BR = (~mask_BT).long().argsort(dim=1, stable=True)[:, :longest]
        counted_BR = mask_BT.gather(1, tokens_BR)
        token_weights_BR = (
            microbatch.align(token_weights_NT).to(mask_BT.device).gather(1, tokens_BR)
        )
        return cls(
            positions_BR=(tokens_BR - 1).clamp_min(0),
            targets_BR=microbatch.input_ids.gather(1, tokens_BR),
            token_weights_BR=(token_weights_BR * counted_BR).to(dtype),
            counted_BR=counted_BR.to(dtype),
        )


@dataclass(frozen=True)
class HeadPass:
    """Scores of a micro-batch, and the gradients at the head."""

    logp_BR: Tensor
    """Log-probability of each response token; 0 at padding."""
    grad: Tensor
    """Gradient of Σ weight · log-probability to hidden states [B, T, C], or to logits [B, T, V]."""
    factor: HeadFactor | None = None
    bias: StoredFactor | None = None
    direction_products: dict[str, Tensor] = field(default_factory=dict)
    """[B] inner products of the weight's gradients with directions, by label."""


def head_pass(
    outputs: Tensor,
    head: nn.Linear | None,
    responses: ResponseTokens,
    *,
    with_bias: bool = False,
    weight_sum_VC: Tensor | None = None,
    with_gradient: bool = True,
    directions: Mapping[str, Tensor] | None = None,
) -> HeadPass:
    """Score a micro-batch, and compute the gradient at its hidden states.

    Args:
        outputs: what `ModelParts.outputs` gives: hidden states [B, T, C], or logits without a head.
        head: the output head; None when the model has none that can be split off.
        responses: which states predict which tokens.
        with_bias: also compute the per-sequence gradients of the head's bias.
        weight_sum_VC: the summed gradient of the head's weight is added here.
        with_gradient: False computes the scores alone.
        directions: tensors of the weight's shape by label, contracted with its gradient while the
            softmax is in memory.
    """
    if head is None:
        return logits_pass(outputs, responses)
    hidden_BTC = outputs
    weight_VC, bias_V = head.weight.detach(), None if head.bias is None else head.bias.detach()
    index = responses.positions_BR[..., None].expand(-1, -1, hidden_BTC.shape[-1])
    states_BRC = hidden_BTC.detach().gather(1, index)
    flat_KC = states_BRC.flatten(0, 1)
    targets, token_weights = responses.targets_BR.flatten(), responses.token_weights_BR.flatten()
    logp, lse = torch.empty_like(token_weights), torch.empty_like(token_weights)
    grads_KC = torch.empty_like(flat_KC)
    rows = responses.token_weights_BR.shape[1]
    bias_BV = (
        token_weights.new_zeros(len(hidden_BTC), len(weight_VC))
        if with_bias and bias_V is not None
        else None
    )
    products_K = {label: torch.empty_like(token_weights) for label in directions or {}}
    block_tokens = _block_tokens(weight_VC, token_weights)
    for start in range(0, len(flat_KC), block_tokens):
        part = slice(start, start + block_tokens)
        # Logits in float32 also for half-precision models: bfloat16 would round them by about 0.1.
        logits_KV = matmul_wide(flat_KC[part], weight_VC.mT)
        if bias_V is not None:
            logits_KV += bias_V
        if not with_gradient:
            logp[part], lse[part] = token_scores(logits_KV, targets[part])
            continue
        logp[part], lse[part], logit_grads_KV = softmax_gradient(
            logits_KV, targets[part], token_weights[part], weight_VC.dtype
        )
        grads_KC[part] = logit_grads_KV @ weight_VC
        if weight_sum_VC is not None:
            weight_sum_VC += matmul_wide(logit_grads_KV.mT, flat_KC[part])
        for label, direction_VC in (directions or {}).items():
            projected_KC = logit_grads_KV @ direction_VC.to(logit_grads_KV.dtype)
            products_K[label][part] = row_dots(projected_KC, flat_KC[part])
        if bias_BV is not None:
            # Tokens are flattened sequence by sequence, `rows` each.
            owners = (
                torch.arange(start, start + len(logit_grads_KV), device=token_weights.device)
                // rows
            )
            bias_BV.index_add_(0, owners, logit_grads_KV.to(bias_BV.dtype))
    grad_BTC = torch.zeros_like(hidden_BTC)
    if with_gradient:
        # Added, not copied: padding, whose gradient is 0, may point to the state of a real token.
        grad_BTC.scatter_add_(1, index, grads_KC.view_as(states_BRC))
    shape = responses.token_weights_BR.shape
    factor = HeadFactor(
        states_BRC,
        responses.targets_BR,
        responses.token_weights_BR,
        lse.view(shape),
        weight_VC,
        bias_V,
    )
    return HeadPass(
        logp.view(shape) * responses.counted_BR,
        grad_BTC,
        factor,
        None if bias_BV is None else StoredFactor(bias_BV),
        {label: each.view(shape).sum(1) for label, each in products_K.items()},
    )


def token_scores(logits_KV: Tensor, targets_K: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target, and logsumexp."""
    lse_K = logits_KV.logsumexp(dim=1)
    return logits_KV.gather(1, targets_K[:, None])[:, 0] - lse_K, lse_K


def softmax_gradient(
    logits_KV: Tensor, targets_K: Tensor, token_weights_K: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability, logsumexp and weight · (onehot − softmax). The logits may be overwritten."""
    if logits_KV.is_cuda:
        return _softmax_gradient_out_of_place(logits_KV, targets_K, token_weights_K, dtype)
    highest_K1 = logits_KV.amax(dim=1, keepdim=True)
    picked_K = logits_KV.gather(1, targets_K[:, None])[:, 0]
    # In place on a CPU: a block of logits (64 MiB) is larger than its cache, so each new copy
    # would be one more pass over memory.
    logits_KV.sub_(highest_K1).exp_()
    total_K = logits_KV.sum(dim=1)
    lse_K = total_K.log() + highest_K1[:, 0]
    logits_KV.mul_((-token_weights_K / total_K)[:, None])
    logits_KV.scatter_add_(1, targets_K[:, None], token_weights_K[:, None])
    return picked_K - lse_K, lse_K, logits_KV.to(dtype)


@fused
def _softmax_gradient_out_of_place(
    logits_KV: Tensor, targets_K: Tensor, token_weights_K: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for a GPU: out of place, so that the compiler fuses it into two passes."""
    highest_K1 = logits_KV.amax(dim=1, keepdim=True)
    total_K1 = (logits_KV - highest_K1).exp().sum(dim=1, keepdim=True)
    lse_K1 = total_K1.log() + highest_K1
    lse_K = lse_K1[:, 0]
    logp_K = logits_KV.gather(1, targets_K[:, None])[:, 0] - lse_K
    words_V = torch.arange(logits_KV.shape[1], device=logits_KV.device)
    softmax_KV = (logits_KV - lse_K1).exp()
    logit_grads_KV = (words_V == targets_K[:, None]).to(softmax_KV.dtype) - softmax_KV
    return logp_K, lse_K, (logit_grads_KV * token_weights_K[:, None]).to(dtype)


def logits_pass(logits_BTV: Tensor, responses: ResponseTokens) -> HeadPass:
    """The same for a model whose head cannot be split off: all logits are in memory already."""
    index = responses.positions_BR[..., None].expand(-1, -1, logits_BTV.shape[-1])
    picked_BRV = logits_BTV.detach().gather(1, index).to(responses.token_weights_BR.dtype)
    logp_K, _, logit_grads_KV = softmax_gradient(
        picked_BRV.flatten(0, 1),
        responses.targets_BR.flatten(),
        responses.token_weights_BR.flatten(),
        logits_BTV.dtype,
    )
    grad_BTV = torch.zeros_like(logits_BTV)
    grad_BTV.scatter_add_(1, index, logit_grads_KV.view_as(picked_BRV))
    return HeadPass(logp_K.view_as(responses.token_weights_BR) * responses.counted_BR, grad_BTV)


def _block_tokens(weight_VC: Tensor, token_weights: Tensor) -> int:
    budget = BLOCK_BYTES_GPU if weight_VC.is_cuda else BLOCK_BYTES_CPU
    fits = int(budget // (len(weight_VC) * token_weights.element_size()))
    if weight_VC.is_cuda:  # a power of two divides most micro-batches: compiled for few shapes
        return max(16, 1 << max(fits, 1).bit_length() - 1)
    return max(16, fits // 128 * 128 if fits >= 128 else fits)
