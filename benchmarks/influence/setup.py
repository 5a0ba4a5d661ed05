"""A model with a stepped AdamW, two batches, and the plain ways to what a kernel costs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.models.causal_lm import CausalLM, CausalLMConfig

__all__ = ["Work", "gpt2_small", "scores"]


def gpt2_small(tokens: int) -> CausalLMConfig:
    """The shape of GPT-2 small with sequences of so many tokens."""
    return CausalLMConfig(
        vocab_size=50_257, width=768, layers=12, heads=12, context=tokens, positions="learned",
        norm="layer", bias=True, tied=True,
    )  # fmt: skip


def batch_of(count: int, config: CausalLMConfig, seed: int) -> SequenceBatch:
    """Random tokens, the first quarter a prompt."""
    stream = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (count, config.context), generator=stream)
    mask = torch.ones_like(ids)
    mask[:, : config.context // 4] = 0
    return SequenceBatch(ids, mask)


def scores(logits_ntv: Tensor, ids_nt: Tensor, mask_nt: Tensor) -> Tensor:
    """Σ of the response tokens' log-probabilities."""
    logp = logits_ntv[:, :-1].log_softmax(-1).gather(2, ids_nt[:, 1:, None])[..., 0]
    return (logp * mask_nt[:, 1:]).sum(1)


class Work:
    """A model with a stepped AdamW and the two batches.

    Args:
        config: of the model; sequences are as long as its context.
        count: sequences of U and of E.
    """

    def __init__(self, config: CausalLMConfig, count: int) -> None:
        self.model = CausalLM(config).eval()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        stream = torch.Generator().manual_seed(0)
        for each in self.model.parameters():
            each.grad = 1e-3 * torch.randn(each.shape, generator=stream)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.update, self.evaluation = batch_of(count, config, 1), batch_of(count, config, 2)
        self.weights = torch.randn(count, generator=stream)

    def kernel(self, **options: Any) -> Any:
        """K(E,U), K(U,U) and Δ of the exact Adam step."""
        return fisher_kernel(
            self.model, self.update, self.evaluation, optimizer=self.optimizer,
            weights=self.weights, **options,
        )  # fmt: skip

    def plain(self) -> None:
        """One forward and backward pass over U and E together."""
        for batch in (self.update, self.evaluation):
            torch.autograd.backward(self.score(batch).sum())
        self.optimizer.zero_grad()

    def score(self, batch: SequenceBatch) -> Tensor:
        """Log π of each sequence, as a trainer computes it."""
        return scores(self.model(batch.input_ids), batch.input_ids, batch.response_mask)

    def loop(self) -> None:
        """The batch-1 loop: a gradient a sequence, U's kept, D once, inner products."""
        count = sum(each.numel() for each in self.model.parameters())
        stacked = torch.empty(len(self.update), count)
        for row in range(len(self.update)):
            stacked[row] = self._gradient(self.update, row)
        total = self.weights @ stacked
        second = torch.cat(
            [self.optimizer.state[p]["exp_avg_sq"].flatten() for p in self.model.parameters()]
        )
        after = second * 0.999 + 0.001 * total.square()
        scaled = stacked / ((after / (1 - 0.999**2)).sqrt() + 1e-8)
        stacked @ scaled.T
        for row in range(len(self.evaluation)):
            scaled @ self._gradient(self.evaluation, row)

    def _gradient(self, batch: SequenceBatch, row: int) -> Tensor:
        made = torch.autograd.grad(
            self.score(batch.select([row])).sum(), list(self.model.parameters())
        )
        return torch.cat([each.flatten() for each in made])
