"""Teacher-forced scores of sequences, in micro-batches of similar length.

Shapes: B sequences, T tokens, W values of a token, N tokens of a tile, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.sampling.language_models import LanguageModel, language_model

TokenPair = tuple[Sequence[int], Sequence[int]]
"""Tokens of a prompt and of a response."""


@dataclass(frozen=True)
class TokenScores:
    """Scores of the response tokens of one sequence."""

    logprobs: tuple[float, ...]
    entropies: tuple[float, ...]


def token_scores(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and entropy of each distribution, returned in float64.

    >>> logprob, entropy = token_scores(torch.zeros(1, 4), torch.tensor([2]))
    >>> round(logprob.item(), 4), round(entropy.item(), 4)
    (-1.3863, 1.3863)
    """
    logits = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    logs_NV = logits.log_softmax(1)
    # 0 · log 0 counts as 0: the clamp keeps a masked token's −inf from making the sum NaN.
    entropy_N = -(logs_NV.exp() * logs_NV.clamp(min=-1e30)).sum(1)
    logprob_N = logs_NV.gather(1, targets_N[:, None])[:, 0]
    return logprob_N.to(torch.float64), entropy_N.to(torch.float64)


def length_buckets(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Rows of sequences of similar length, at most `max_tokens` tokens per bucket with padding.

    A longer sequence gets a bucket of its own.

    >>> list(length_buckets([9, 2, 3], max_tokens=8))
    [[1, 2], [0]]
    """
    rows: list[int] = []
    # Rising lengths: the newest row is the longest, so it sets the width of the bucket.
    for at in sorted(range(len(lengths)), key=lambda at: lengths[at]):
        if rows and (len(rows) + 1) * lengths[at] > max_tokens:
            yield rows
            rows = []
        rows.append(at)
    if rows:
        yield rows


class SequenceProcessor:
    """Scores sequences with a model, without all logits [tokens, vocabulary] in memory.

    Args:
        model: a midstep CausalLM or a causal language model of transformers.
        pad_id: token id of the padding.
        max_tokens: tokens of a micro-batch, padding included.
        tile: tokens whose logits are in memory at once.
    """

    def __init__(
        self,
        model: nn.Module | LanguageModel,
        *,
        pad_id: int = 0,
        max_tokens: int = 8192,
        tile: int = 1024,
    ) -> None:
        if max_tokens < 1 or tile < 1:
            raise ConfigError(f"max_tokens and tile must be at least 1, got {max_tokens}, {tile}")
        self.model = language_model(model)
        self.pad_id, self.max_tokens, self.tile = pad_id, max_tokens, tile

    @torch.no_grad()
    def score(self, pairs: Sequence[TokenPair]) -> list[TokenScores]:
        """Scores of the response of each pair, in order."""
        self._check(pairs)
        lengths = [len(prompt) + len(response) for prompt, response in pairs]
        scores_by_row: dict[int, TokenScores] = {}
        with eval_mode(self.model.module):
            for rows in length_buckets(lengths, self.max_tokens):
                scores = self._score_bucket([pairs[row] for row in rows])
                scores_by_row.update(zip(rows, scores, strict=True))
        return [scores_by_row[at] for at in range(len(pairs))]

    def _check(self, pairs: Sequence[TokenPair]) -> None:
        for at, (prompt, response) in enumerate(pairs):
            if not prompt or not response:
                missing = "prompt" if not prompt else "response"
                raise ConfigError(f"sequence {at} has an empty {missing}; give at least one token")
            if len(prompt) + len(response) > self.model.context:
                raise ConfigError(
                    f"sequence {at} has {len(prompt) + len(response)} tokens, the model's context "
                    f"is {self.model.context}; shorten it, or use a model with a larger context"
                )

    def _score_bucket(self, pairs: Sequence[TokenPair]) -> list[TokenScores]:
        ids_BT, mask_BT, scored_BT = self.padded_tensors(pairs)
        hidden_BTW = self.model.hidden(ids_BT, mask_BT)
        # The hidden state at t - 1 predicts the token at t.
        read_BT = scored_BT[:, 1:]
        logprobs, entropies = self._score_tiles(hidden_BTW[:, :-1][read_BT], ids_BT[:, 1:][read_BT])
        ends = accumulate((len(response) for _, response in pairs), initial=0)
        return [
            TokenScores(tuple(logprobs[start:end].tolist()), tuple(entropies[start:end].tolist()))
            for start, end in pairwise(ends)
        ]

    def _score_tiles(self, hidden_NW: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        spans = [slice(at, at + self.tile) for at in range(0, len(targets_N), self.tile)]
        parts = [token_scores(self.model.head(hidden_NW[span]), targets_N[span]) for span in spans]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs).cpu(), torch.cat(entropies).cpu()

    def padded_tensors(self, pairs: Sequence[TokenPair]) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, attention mask and response mask [B, T], padded on the right, on the device."""
        longest = max(len(prompt) + len(response) for prompt, response in pairs)
        ids = torch.full((len(pairs), longest), self.pad_id)
        mask, scored = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
        for row, (prompt, response) in enumerate(pairs):
            end = len(prompt) + len(response)
            ids[row, :end] = torch.tensor([*prompt, *response])
            mask[row, :end] = 1
            scored[row, len(prompt) : end] = True
        device = next(self.model.module.parameters()).device
        return ids.to(device), mask.to(device), scored.to(device)
