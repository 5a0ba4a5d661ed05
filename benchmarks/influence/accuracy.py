"""How near a kernel in a short number type comes to float32, on sequences like a trainer's.

Random tokens on a drawn model make nearly orthogonal gradients: K(E,U) is then a sum that cancels,
and its relative error says nothing. So: a language with Zipf's frequencies and likely successors, a
model that took some AdamW steps on it (whose state is the kernel's), and batches as policy
gradients have them, several completions of each prompt, the same prompts in E and in U.

Trainings on a GPU do not repeat to the bit and the error differs between them, so the median of
several is what is held against a bar.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.optimizers.adam_state import AdamState

__all__ = ["Language", "accuracy", "group_batches", "medians", "train"]

SUCCESSORS = 16
LIKELY = 0.75
"""How often a word is followed by one of its likely successors."""


class Language:
    """Words of Zipf's frequencies (1 / (rank + 2.7)), each with some likely successors.

    Args:
        vocabulary: how many words.
        seed: which language.
    """

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        self._stream = torch.Generator().manual_seed(seed)
        names = torch.randperm(vocabulary, generator=self._stream)
        chances = 1 / (torch.arange(vocabulary, dtype=torch.float64) + 2.7)
        in_order = torch.empty(vocabulary, dtype=torch.float64)
        in_order[names] = chances / chances.sum()
        self._edges = in_order.cumsum(0)
        self._after = self._words(vocabulary * SUCCESSORS).view(vocabulary, SUCCESSORS)

    def _words(self, count: int) -> Tensor:
        drawn = torch.rand(count, generator=self._stream, dtype=torch.float64)
        return torch.searchsorted(self._edges, drawn).clamp_max(len(self._edges) - 1)

    def continue_(self, start: Tensor, tokens: int) -> Tensor:
        """[N, T] sequences that begin with `start` [N, P] and go on to `tokens`."""
        columns = list(start.unbind(1))
        while len(columns) < tokens:
            last = columns[-1]
            which = torch.randint(SUCCESSORS, last.shape, generator=self._stream)
            likely = torch.rand(last.shape, generator=self._stream) < LIKELY
            columns.append(torch.where(likely, self._after[last, which], self._words(len(last))))
        return torch.stack(columns, 1)

    def texts(self, count: int, tokens: int) -> Tensor:
        """[N, T] sequences from their first word on."""
        return self.continue_(self._words(count)[:, None], tokens)


def group_batches(
    language: Language, *, prompts: int, completions: int, tokens: int
) -> tuple[SequenceBatch, SequenceBatch]:
    """U and E: for each prompt (a quarter of the tokens) that many completions on either side."""
    asked = tokens // 4
    heads = language.texts(prompts, asked).repeat_interleave(completions, 0)
    made = []
    for _ in range(2):
        ids = language.continue_(heads, tokens)
        mask = torch.ones_like(ids)
        mask[:, :asked] = 0
        made.append(SequenceBatch(ids, mask))
    return made[0], made[1]


def train(
    model: nn.Module, language: Language, *, steps: int, sequences: int, tokens: int, lr: float
) -> tuple[torch.optim.AdamW, list[float]]:
    """Some AdamW steps on next words, float32 masters, short products where there is a GPU."""
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=0.0)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / max(1, steps // 5))
        ids = language.texts(sequences, tokens).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = model(ids)[:, :-1]
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        del logits
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    return optimizer, losses


def accuracy(
    model: nn.Module,
    state: AdamState,
    update: SequenceBatch,
    evaluation: SequenceBatch,
    dtype: torch.dtype,
    around: Callable[[], Any],
) -> dict[str, float]:
    """K of `model` in `dtype` against float32 of the same (rounded) weights."""
    weights = torch.randn(len(update), generator=torch.Generator().manual_seed(3)) / len(update)

    def kernel(each: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
        with around():
            block = fisher_kernel(
                each, update, evaluation, optimizer=state, weights=weights, want=("EU", "UU"),
                algorithm="sweep", mode="bounded", check_coverage=False,
            )  # fmt: skip
        if block.k_eu is None or block.k_uu is None or block.norms_e is None:
            raise RuntimeError("both blocks and the norms were asked for")
        return block.k_eu.double().cpu(), block.k_uu.double().cpu(), block.norms_e.double().cpu()

    short = kernel(model.to(dtype))
    with torch.compiler.set_stance("force_eager"):
        true = kernel(model.float())
    eu, uu, size_e = true
    apart = ~torch.eye(len(uu), dtype=torch.bool)
    size = size_e[:, None] * uu.diagonal().sqrt()
    return {
        "relative_error_eu": relative(short[0], eu),
        "rank_correlation_eu": rank_correlation(short[0], eu),
        "relative_error_uu": relative(short[1], uu),
        "relative_error_uu_apart": relative(short[1][apart], uu[apart]),
        "error_of_cosines_eu": float(((short[0] - eu) / size).square().mean().sqrt()),
        "cosines_eu_mean": float((eu / size).mean()),
        "cosines_eu_spread": float((eu / size).std()),
        "relative_error_norms_e": relative(short[2], size_e),
    }


def medians(trainings: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Of each figure the median over trainings; under `smallest` and `largest` the extremes.

    >>> medians([{"error": 0.03}, {"error": 0.08}, {"error": 0.04}])["error"]
    0.04
    """
    columns = {name: [float(one[name]) for one in trainings] for name in trainings[0]}
    found: dict[str, Any] = {name: statistics.median(each) for name, each in columns.items()}
    return found | {
        "trainings": len(trainings),
        "smallest": {name: min(each) for name, each in columns.items()},
        "largest": {name: max(each) for name, each in columns.items()},
    }


def relative(found: Tensor, true: Tensor) -> float:
    """|found − true| / |true|."""
    return float((found - true).norm() / true.norm())


def rank_correlation(left: Tensor, right: Tensor) -> float:
    """Spearman's."""
    ranks = [each.flatten().argsort().argsort().double() for each in (left, right)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])
