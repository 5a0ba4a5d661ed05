"""Batched decoding whose tokens do not depend on the batch.

Batched matrix products round differently for different batch shapes. So when the two best tokens
are closer than `margin`, the token is decided again from the sequence alone, unpadded and without
a cache. That decision depends only on the sequence and its random stream. As long as batching
changes no logit by more than half the margin, the same seed gives the same tokens for any
micro-batch size.

Shapes: B sequences, T tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require
from midstep.core.random_streams import stream_key
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.sampling.language_models import LanguageModel

# Constants of SplitMix64. torch has no unsigned 64-bit arithmetic, so they are signed words, and
# products and sums wrap around as they should.
_INCREMENT = -7046029254386353131  # 0x9E3779B97F4A7C15
_FIRST_MULTIPLIER = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND_MULTIPLIER = -7723592293110705685  # 0x94D049BB133111EB


def _shift(words: Tensor, by: int) -> Tensor:
    """A logical shift to the right; the shift of torch keeps the sign."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def gumbel_noise(keys_B: Tensor, vocab_size: int) -> Tensor:
    """Standard Gumbel noise [B, V] in float64, from SplitMix64 of key and token.

    >>> keys = torch.tensor([3, 4])
    >>> torch.equal(gumbel_noise(keys, 8)[1:], gumbel_noise(keys[1:], 8))
    True
    """
    tokens = torch.arange(1, vocab_size + 1, device=keys_B.device)
    words = keys_B[:, None] + tokens * _INCREMENT
    words = (words ^ _shift(words, 30)) * _FIRST_MULTIPLIER
    words = (words ^ _shift(words, 27)) * _SECOND_MULTIPLIER
    words = words ^ _shift(words, 31)
    # Half a unit keeps the uniform number away from 0 and 1, where a logarithm is infinite.
    uniform = (_shift(words, 11).to(torch.float64) + 0.5) * 2.0**-53
    return -(-uniform.log()).log()


def gumbel_argmax(logits_BV: Tensor, keys_B: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The drawn tokens [B], and the gap to the second best [B] in units of a logit.

    argmax(logits + temperature · Gumbel noise) is a draw from softmax(logits / temperature). A
    temperature of 0 takes the most likely token.
    """
    scores = logits_BV.to(torch.float64)
    if temperature > 0:
        scores = scores + temperature * gumbel_noise(keys_B, logits_BV.shape[1])
    best = scores.topk(min(2, scores.shape[1]), dim=1)
    if best.values.shape[1] == 1:
        return best.indices[:, 0], torch.full_like(best.values[:, 0], torch.inf)
    return best.indices[:, 0], best.values[:, 0] - best.values[:, 1]


_MARGINS = {torch.float64: 1e-9, torch.float32: 1e-3}
_COARSE_MARGIN = 0.5  # bfloat16 and float16: logits of size 20 are 0.1 apart


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Settings of decoding."""

    max_new_tokens: int = 64
    """The most tokens of a response. It also ends at the end of the context."""
    temperature: float = 1.0
    """Logits are divided by it; 0 takes the most likely token."""
    microbatch: int = 32
    """Sequences decoded together. It changes the speed, not the tokens."""
    margin: float | None = None
    """Tokens with a smaller gap are decided from the sequence alone. None: by the model's type
    (1e-9 for float64, 1e-3 for float32, 0.5 below)."""

    def __post_init__(self) -> None:
        require(
            at_least("max_new_tokens", self.max_new_tokens, 1),
            at_least("microbatch", self.microbatch, 1),
        )
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature must be 0 or above, got {self.temperature}")

    def margin_for(self, dtype: torch.dtype) -> float:
        """The margin for a model of type `dtype`."""
        return self.margin if self.margin is not None else _MARGINS.get(dtype, _COARSE_MARGIN)


@dataclass(frozen=True)
class DrawKey:
    """The key of the random numbers of one sequence."""

    seed: int
    prompt_id: str
    draw: int

    def key(self, position: int) -> int:
        """The key for drawing the token at `position`, as a signed word."""
        key = stream_key(self.seed, f"sampling/{self.prompt_id}", self.draw, position)
        return key - (1 << 64) if key >= 1 << 63 else key  # torch has only signed words


@dataclass
class DecodedSequence:
    """The response drawn for one prompt."""

    tokens: list[int] = field(default_factory=list)
    """Tokens of the response, with the end token if there is one."""
    sampler_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each token under the distribution it was drawn from."""
    finished: bool = False
    """Whether it ended with the end token, not at a limit."""
    close_calls: int = 0
    """How many tokens were decided from the sequence alone."""


@torch.no_grad()
def decode(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    draw_keys: Sequence[DrawKey],
    *,
    end_id: int,
    pad_id: int,
    config: DecodingConfig,
) -> list[DecodedSequence]:
    """Draw one response for each prompt; prompts of similar length are decoded together."""
    for at, prompt in enumerate(prompts):
        if not prompt:
            raise ConfigError(f"prompt {at} has no tokens; give it at least one")
        if len(prompt) >= model.context:
            raise ConfigError(
                f"prompt {at} has {len(prompt)} tokens, which leaves no room for a response in the "
                f"context of {model.context}; shorten it, or use a model with a larger context"
            )
    decoded: list[DecodedSequence] = [DecodedSequence() for _ in prompts]
    with eval_mode(model.module):
        for rows in _microbatches([len(prompt) for prompt in prompts], model.context, config):
            _DecodingBatch(model, prompts, draw_keys, rows, decoded, config).run(end_id, pad_id)
    return decoded


def _microbatches(
    lengths: Sequence[int], context: int, config: DecodingConfig
) -> Iterator[list[int]]:
    """Rows of prompts of similar length.

    Padding must not use up the context of a short prompt: where the context may end a response,
    only prompts of one length share a micro-batch.
    """
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    rows: list[int] = []
    for at in order:
        reaches_end = lengths[at] + config.max_new_tokens > context
        other_length = bool(rows) and lengths[rows[0]] != lengths[at]
        if len(rows) == config.microbatch or (reaches_end and other_length):
            yield rows
            rows = []
        rows.append(at)
    if rows:
        yield rows


class _DecodingBatch:
    """One micro-batch: sequences padded on the left, removed when they end."""

    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Sequence[int]],
        draw_keys: Sequence[DrawKey],
        rows: list[int],
        decoded: list[DecodedSequence],
        config: DecodingConfig,
    ) -> None:
        self.model, self.config, self.rows = model, config, rows
        self.prompts, self.draw_keys, self.decoded = prompts, draw_keys, decoded
        parameter = next(model.module.parameters())
        self.margin, self.device = config.margin_for(parameter.dtype), parameter.device

    def run(self, end_id: int, pad_id: int) -> None:
        ids_BT, mask_BT = _pad_left([self.prompts[row] for row in self.rows], pad_id)
        ids_BT, mask_BT = ids_BT.to(self.device), mask_BT.to(self.device)
        decoder = self.model.decoder(
            min(ids_BT.shape[1] + self.config.max_new_tokens, self.model.context)
        )
        for position in range(self.config.max_new_tokens):
            drawn_B = self._draw(decoder.read(ids_BT, mask_BT), position)
            unfinished = self._mark_finished(drawn_B, end_id)
            if not unfinished:
                break
            ids_BT = drawn_B[:, None]
            mask_BT = torch.cat([mask_BT, torch.ones_like(ids_BT)], dim=1)
            # Ended sequences leave the batch and the cache: the rest is decoded faster.
            if len(unfinished) < len(self.rows):
                kept = torch.tensor(unfinished, device=self.device)
                decoder.keep(kept)
                ids_BT, mask_BT = ids_BT[kept], mask_BT[kept]
                self.rows = [self.rows[at] for at in unfinished]

    def _draw(self, logits_BV: Tensor, position: int) -> Tensor:
        # Keys depend on the sequence and its position, never on the row in the batch.
        keys = [self.draw_keys[row].key(position) for row in self.rows]
        keys_B = torch.tensor(keys, device=self.device)
        drawn_B, gap_B = gumbel_argmax(logits_BV, keys_B, self.config.temperature)
        # Close calls: rare (few tokens have two equal candidates), so one by one.
        for at in (gap_B <= self.margin).nonzero()[:, 0].tolist():
            logits_BV = logits_BV.index_put(
                (torch.tensor([at], device=self.device),), self._logits_alone(self.rows[at])
            )
            again, _ = gumbel_argmax(
                logits_BV[at : at + 1], keys_B[at : at + 1], self.config.temperature
            )
            drawn_B[at] = again[0]
            self.decoded[self.rows[at]].close_calls += 1
        self._record(logits_BV, drawn_B)
        return drawn_B

    def _logits_alone(self, row: int) -> Tensor:
        """Logits [1, V] after one sequence, computed without batch, padding and cache."""
        tokens = [*self.prompts[row], *self.decoded[row].tokens]
        ids_1T = torch.tensor([tokens], device=self.device)
        hidden = self.model.hidden(ids_1T, torch.ones_like(ids_1T))
        return self.model.head(hidden[:, -1])

    def _record(self, logits_BV: Tensor, drawn_B: Tensor) -> None:
        temperature = self.config.temperature
        if temperature > 0:
            logs = (logits_BV.to(torch.float64) / temperature).log_softmax(1)
            logprobs = logs.gather(1, drawn_B[:, None])[:, 0].tolist()
        else:
            logprobs = [0.0] * len(self.rows)  # the most likely token has probability 1
        for row, token, logprob in zip(self.rows, drawn_B.tolist(), logprobs, strict=True):
            self.decoded[row].tokens.append(token)
            self.decoded[row].sampler_logprobs.append(logprob)

    def _mark_finished(self, drawn_B: Tensor, end_id: int) -> list[int]:
        """Mark sequences that have ended, and return the positions of the others in this batch."""
        unfinished = []
        for at, token in enumerate(drawn_B.tolist()):
            length = len(self.prompts[self.rows[at]]) + len(self.decoded[self.rows[at]].tokens)
            if token == end_id:
                self.decoded[self.rows[at]].finished = True
            elif length < self.model.context:
                unfinished.append(at)
        return unfinished


def _pad_left(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    longest = max(len(prompt) for prompt in prompts)
    ids = [[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(mask)
