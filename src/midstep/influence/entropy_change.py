"""How fast the mean entropy of a batch changes along a step, to first order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from midstep.influence.sampling.processor import SequenceProcessor, length_buckets, token_scores

if TYPE_CHECKING:
    from torch import nn

    from midstep.influence.sampling.batch import GeneratedBatch

__all__ = ["entropy_rate"]

_TOKENS = 1024
"""Tokens of a pass: its logits are held with their graph."""


def entropy_rate(model: nn.Module, moved: nn.Module, batch: GeneratedBatch, rate: float) -> float:
    """∂/∂η of the mean entropy of a response token, for a step that led from `model` to `moved`.

    An AdamW step is linear in its learning rate, so `moved` may stand at any `rate`.
    """
    processor = SequenceProcessor(model, pad_id=batch.pad_id)
    pairs = [(one.prompt_tokens, one.response_tokens) for one in batch]
    lengths = [len(prompt) + len(response) for prompt, response in pairs]
    ends = dict(moved.named_parameters())
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    changed, tokens = 0.0, 0
    for rows in length_buckets(lengths, _TOKENS):
        ids, mask, scored = processor.tensors([pairs[row] for row in rows])
        with torch.enable_grad():
            hidden = processor.model.hidden(ids, mask)[:, :-1][scored[:, 1:]]
            _, entropy = token_scores(processor.model.head(hidden), ids[:, 1:][scored[:, 1:]])
            grads = torch.autograd.grad(entropy.sum(), list(trained.values()), allow_unused=True)
        tokens += len(entropy)
        for (name, start), grad in zip(trained.items(), grads, strict=True):
            if grad is not None:
                step = ends[name].detach() - start.detach()
                changed += (grad * step).sum(dtype=torch.float64).item()
    return changed / tokens / rate
