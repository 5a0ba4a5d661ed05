"""Batched decoding whose tokens do not depend on the batch.

Batched matrix products round differently with the batch's shape. So a token whose choice is close
(`margin`) is decided again from the sequence alone, unpadded and without a cache; that answer is a
function of the sequence and its random stream. The promise: as long as batching moves no logit by
more than half the margin, the same seed gives the same tokens for any micro-batch size.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from midstep.core.errors import ConfigError
from midstep.core.streams import stream_key
from midstep.influence.sampling.gumbel import choose, signed
from midstep.influence.sampling.language_models import Decoder, LanguageModel

__all__ = ["DecodedSequence", "DecodingConfig", "DrawAddress", "decode"]

_MARGINS = {torch.float64: 1e-9, torch.float32: 1e-3}
_COARSE_MARGIN = 0.5  # bfloat16 and float16: logits of size 20 are 0.1 apart


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How responses are drawn."""

    max_new_tokens: int = 64
    """Tokens of a response at most; it also ends where the context does."""
    temperature: float = 1.0
    """Logits are divided by it; 0 takes the likeliest token."""
    microbatch: int = 32
    """Sequences decoded together; changes speed, not tokens."""
    margin: float | None = None
    """Logits closer than this are decided from the sequence alone. None: by the model's type
    (1e-9 for float64, 1e-3 for float32, 0.5 below)."""

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "microbatch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature must be 0 or above, got {self.temperature}")

    def margin_for(self, dtype: torch.dtype) -> float:
        """The margin in use for a model of type `dtype`."""
        return self.margin if self.margin is not None else _MARGINS.get(dtype, _COARSE_MARGIN)


@dataclass(frozen=True)
class DrawAddress:
    """Where the random numbers of one sequence come from."""

    seed: int
    prompt_id: str
    draw: int

    def key(self, place: int) -> int:
        """The key of the draw of one token, as a signed word."""
        return signed(stream_key(self.seed, f"sampling/{self.prompt_id}", self.draw, place))


@dataclass
class DecodedSequence:
    """What was drawn after one prompt."""

    tokens: list[int] = field(default_factory=list)
    """The response, with its end token where it ended."""
    sampler_logprobs: list[float] = field(default_factory=list)
    """Log-probability of each token under the distribution it was drawn from."""
    finished: bool = False
    """It ended by itself, not by the limit."""
    close_calls: int = 0
    """Tokens decided from the sequence alone."""


@torch.no_grad()
def decode(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    addresses: Sequence[DrawAddress],
    *,
    end_id: int,
    pad_id: int,
    config: DecodingConfig,
) -> list[DecodedSequence]:
    """Draw one response after each prompt, prompts of like length together."""
    _check_prompts(prompts, model.context)
    made: list[DecodedSequence] = [DecodedSequence() for _ in prompts]
    was_training = model.module.training
    model.module.eval()
    try:
        for rows in _microbatches([len(prompt) for prompt in prompts], model.context, config):
            _Batch(model, prompts, addresses, rows, made, config).run(end_id, pad_id)
    finally:
        model.module.train(was_training)
    return made


def _check_prompts(prompts: Sequence[Sequence[int]], context: int) -> None:
    for at, prompt in enumerate(prompts):
        if not prompt:
            raise ConfigError(f"prompt {at} has no tokens; give it at least one")
        if len(prompt) >= context:
            raise ConfigError(
                f"prompt {at} has {len(prompt)} tokens, which leaves no room for a response in the "
                f"context of {context}; shorten it, or use a model with a larger context"
            )


def _microbatches(
    lengths: Sequence[int], context: int, config: DecodingConfig
) -> Iterator[list[int]]:
    """Places of prompts of like length. Padding must not use up the context of a short prompt:
    where the context may end a response, only prompts of one length share a batch.
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


class _Batch:
    """One micro-batch: sequences padded on the left, dropped as they end."""

    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Sequence[int]],
        addresses: Sequence[DrawAddress],
        rows: list[int],
        made: list[DecodedSequence],
        config: DecodingConfig,
    ) -> None:
        self.model, self.config, self.rows = model, config, rows
        self.prompts, self.addresses, self.made = prompts, addresses, made
        parameter = next(model.module.parameters())
        self.margin, self.device = config.margin_for(parameter.dtype), parameter.device

    def run(self, end_id: int, pad_id: int) -> None:
        ids_BT, mask_BT = _left_padded([self.prompts[row] for row in self.rows], pad_id)
        ids_BT, mask_BT = ids_BT.to(self.device), mask_BT.to(self.device)
        decoder = self.model.decoder(
            min(ids_BT.shape[1] + self.config.max_new_tokens, self.model.context)
        )
        for place in range(self.config.max_new_tokens):
            drawn_B = self._draw(decoder.read(ids_BT, mask_BT), place)
            kept = self._note_ends(drawn_B, end_id)
            if not kept:
                break
            ids_BT = drawn_B[:, None]
            mask_BT = torch.cat([mask_BT, torch.ones_like(ids_BT)], dim=1)
            if len(kept) < len(self.rows):
                ids_BT, mask_BT = self._drop(decoder, kept, ids_BT, mask_BT)

    def _draw(self, logits_BV: Tensor, place: int) -> Tensor:
        keys = [self.addresses[row].key(place) for row in self.rows]
        keys_B = torch.tensor(keys, device=self.device)
        drawn_B, gap_B = choose(logits_BV, keys_B, self.config.temperature)
        for at in (gap_B <= self.margin).nonzero()[:, 0].tolist():
            logits_BV = logits_BV.index_put(
                (torch.tensor([at], device=self.device),), self._alone(self.rows[at])
            )
            again, _ = choose(logits_BV[at : at + 1], keys_B[at : at + 1], self.config.temperature)
            drawn_B[at] = again[0]
            self.made[self.rows[at]].close_calls += 1
        self._record(logits_BV, drawn_B)
        return drawn_B

    def _alone(self, row: int) -> Tensor:
        """Logits [1, V] after this sequence, read by itself."""
        tokens = [*self.prompts[row], *self.made[row].tokens]
        ids_1T = torch.tensor([tokens], device=self.device)
        hidden = self.model.hidden(ids_1T, torch.ones_like(ids_1T))
        return self.model.head(hidden[:, -1])

    def _record(self, logits_BV: Tensor, drawn_B: Tensor) -> None:
        temperature = self.config.temperature
        if temperature > 0:
            logs = (logits_BV.to(torch.float64) / temperature).log_softmax(1)
            logprobs = logs.gather(1, drawn_B[:, None])[:, 0].tolist()
        else:
            logprobs = [0.0] * len(self.rows)  # the likeliest token is certain
        for row, token, logprob in zip(self.rows, drawn_B.tolist(), logprobs, strict=True):
            self.made[row].tokens.append(token)
            self.made[row].sampler_logprobs.append(logprob)

    def _note_ends(self, drawn_B: Tensor, end_id: int) -> list[int]:
        """Places in this batch of the sequences that go on."""
        kept = []
        for at, token in enumerate(drawn_B.tolist()):
            full = len(self.prompts[self.rows[at]]) + len(self.made[self.rows[at]].tokens)
            if token == end_id:
                self.made[self.rows[at]].finished = True
            elif full < self.model.context:
                kept.append(at)
        return kept

    def _drop(
        self, decoder: Decoder, kept: list[int], ids_BT: Tensor, mask_BT: Tensor
    ) -> tuple[Tensor, Tensor]:
        places = torch.tensor(kept, device=self.device)
        decoder.keep(places)
        self.rows = [self.rows[at] for at in kept]
        return ids_BT[places], mask_BT[places]


def _left_padded(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    longest = max(len(prompt) for prompt in prompts)
    ids = [[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(mask)
