"""A small causal language model: enough to sample from, to train in a minute, and to look into.

It computes in the type of its weights throughout, so that float64 is float64 everywhere.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.core.streams import RandomStream
from midstep.models.causal_lm_config import CausalLMConfig
from midstep.models.causal_lm_parts import Block, KeyValueCache, norm_of, rotary_angles

__all__ = ["CausalLM", "CausalLMConfig", "KeyValueCache"]


class CausalLM(nn.Module):
    """Embedding, blocks, norm, head. Sequences may be padded on either side.

    `hidden` and `head` are apart, so that logits over the vocabulary can be made in tiles.

    >>> model = CausalLM(CausalLMConfig(vocab_size=11, width=8, layers=1, heads=2))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 11])
    """

    def __init__(self, config: CausalLMConfig) -> None:
        super().__init__()
        self.config = config
        # On `meta` nothing is drawn; the weights come from a stream of their own.
        self.embedding = nn.Embedding(config.vocab_size, config.width, device="meta")
        self.places: nn.Embedding | None = None
        if config.positions == "learned":
            self.places = nn.Embedding(config.context, config.width, device="meta")
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = norm_of(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False, device="meta")
        self.to_empty(device="cpu")
        self._draw_weights()
        if config.tied:
            self.head.weight = self.embedding.weight

    def _draw_weights(self) -> None:
        """Normal with 0.02, what adds to the stream narrower by its depth (GPT-2's rule)."""
        generator = RandomStream(self.config.seed, "causal_lm.weights").torch_generator()
        narrow = 0.02 / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                adds = name.endswith(("attention.out.weight", "down.weight"))
                nn.init.normal_(parameter, std=narrow if adds else 0.02, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Logits [B, T, vocabulary] of the token after each.

        Args:
            input_ids: tokens [B, T]; with a cache, only those it has not read yet.
            attention_mask: 1 for tokens, 0 for padding, [B, T]; with a cache it covers the tokens
                in it too. None: no padding.
            cache: read from and added to.
        """
        logits: Tensor = self.head(self.hidden(input_ids, attention_mask, cache))
        return logits

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """What the head reads, [B, T, width]; arguments as of `forward`."""
        past = cache.length if cache is not None else 0
        self._check_length(past + input_ids.shape[1])
        places_BT = _places(input_ids, attention_mask, past)
        allowed_B1TS = _allowed(input_ids.shape[1], attention_mask, past, input_ids.device)
        stream_BTW, angles_BTd = self.embedding(input_ids), None
        if self.places is not None:
            stream_BTW = stream_BTW + self.places(places_BT)
        else:
            angles_BTd = rotary_angles(places_BT, self.config.head_width, self.config.rotary_base)
        for block in self.blocks:
            stream_BTW = block(stream_BTW, angles_BTd, allowed_B1TS, cache)
        if cache is not None:
            cache.advance(input_ids.shape[1])
        normed: Tensor = self.norm(stream_BTW)
        return normed

    def _check_length(self, tokens: int) -> None:
        if tokens > self.config.context:
            raise ConfigError(
                f"a sequence of {tokens} tokens is longer than the context of "
                f"{self.config.context}; shorten it, or make a model with a larger context"
            )


def _places(input_ids: Tensor, mask_BS: Tensor | None, past: int) -> Tensor:
    """The place of each new token among the real ones; padding counts as place 0."""
    if mask_BS is None:
        places = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        return places.expand(input_ids.shape[0], -1)
    return (mask_BS.long().cumsum(1) - 1).clamp(min=0)[:, past:]


def _allowed(tokens: int, mask_BS: Tensor | None, past: int, device: torch.device) -> Tensor | None:
    """Which token may read which, [B or 1, 1, T, S]; None for plain causal.

    Padding reads itself: a softmax over nothing would be NaN and spread in the backward pass.
    """
    if mask_BS is None and past == 0:
        return None
    keys = torch.arange(past + tokens, device=device)
    queries = keys[past:, None]
    if mask_BS is None:
        return (keys <= queries)[None, None]
    seen_BTS = (keys <= queries) & mask_BS.bool()[:, None, :]
    return (seen_BTS | (keys == queries))[:, None]
