"""Noise addressed by (key, token), so that a draw depends on nothing but its own address.

The largest of logit + Gumbel noise is a sample of the softmax (Gumbel 1954). Unlike drawing along
the cumulative distribution, it leaves a gap: how far the second came behind. Where the gap is wide,
rounding in the logits cannot change the choice.
"""

# ruff: noqa: N803 - names end in their shape
from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["choose", "gumbel_noise", "signed"]

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed word
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


def signed(key: int) -> int:
    """A 64-bit key as the signed word that torch can hold."""
    return key - (1 << 64) if key >= 1 << 63 else key


def _shift(words: Tensor, by: int) -> Tensor:
    """A logical shift to the right; torch's own keeps the sign."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def gumbel_noise(keys_B: Tensor, vocab_size: int) -> Tensor:
    """Standard Gumbel noise [B, V] in float64, by SplitMix64 of key and token.

    >>> keys = torch.tensor([3, 4])
    >>> torch.equal(gumbel_noise(keys, 8)[1:], gumbel_noise(keys[1:], 8))
    True
    """
    tokens = torch.arange(1, vocab_size + 1, device=keys_B.device)
    words = keys_B[:, None] + tokens * _GOLDEN
    words = (words ^ _shift(words, 30)) * _FIRST
    words = (words ^ _shift(words, 27)) * _SECOND
    words = words ^ _shift(words, 31)
    # Half a unit keeps the uniform away from 0 and 1, where the logarithms end.
    uniform = (_shift(words, 11).to(torch.float64) + 0.5) * 2.0**-53
    return -(-uniform.log()).log()


def choose(logits_BV: Tensor, keys_B: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The tokens drawn [B], and the gap to the second [B] in units of a logit.

    A temperature of 0 takes the likeliest token.
    """
    scores = logits_BV.to(torch.float64)
    if temperature > 0:
        scores = scores + temperature * gumbel_noise(keys_B, logits_BV.shape[1])
    best = scores.topk(min(2, scores.shape[1]), dim=1)
    if best.values.shape[1] == 1:
        return best.indices[:, 0], torch.full_like(best.values[:, 0], torch.inf)
    return best.indices[:, 0], best.values[:, 0] - best.values[:, 1]
