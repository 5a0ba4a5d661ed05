"""A small causal language model: enough to sample from, to train in a minute, and to look into.

It computes in the type of its weights throughout, so that float64 is float64 everywhere.
"""

# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from midstep.core.errors import ConfigError
from midstep.core.random_streams import RandomStream

Positions = Literal["rotary", "learned"]
Norm = Literal["rms", "layer"]

_COUNTS = ("vocab_size", "width", "layers", "heads", "kv_heads", "mlp_width", "context")


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    """What a small causal language model is made of.

    >>> CausalLMConfig(vocab_size=32, heads=4, kv_heads=2).head_width
    32
    """

    vocab_size: int
    """Tokens it knows."""
    width: int = 128
    """Values of a token in the residual stream."""
    layers: int = 4
    """Blocks of attention and perceptron."""
    heads: int = 4
    """Query heads of a block; they divide `width`."""
    kv_heads: int | None = None
    """Key and value heads (grouped-query attention); they divide `heads`. None: as many."""
    mlp_width: int | None = None
    """Values between the two layers of a perceptron. None: four times `width`."""
    positions: Positions = "rotary"
    """rotary: queries and keys are turned (Su et al. 2021); learned: a vector for each place."""
    tied: bool = True
    """The head reads with the weights of the embedding."""
    norm: Norm = "rms"
    """rms: scale alone (Zhang, Sennrich 2019); layer: mean, scale and bias."""
    bias: bool = False
    """Linear layers of the blocks have biases."""
    context: int = 128
    """Tokens that a sequence may have."""
    rotary_base: float = 10_000.0
    """Base of the wavelengths of rotary positions."""
    seed: int = 0
    """Seed of the initial weights; a stream of its own, no global generator is drawn from."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.positions not in get_args(Positions):
            raise ConfigError(f"positions must be 'rotary' or 'learned', got {self.positions!r}")
        if self.norm not in get_args(Norm):
            raise ConfigError(f"norm must be 'rms' or 'layer', got {self.norm!r}")
        self._check_heads()

    def _check_heads(self) -> None:
        if self.width % self.heads:
            raise ConfigError(
                f"{self.heads} heads do not divide the width {self.width}; change one of them"
            )
        if self.heads % self.key_heads:
            raise ConfigError(
                f"kv_heads={self.key_heads} does not divide heads={self.heads}; change one of them"
            )
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigError(
                f"rotary positions need an even number of values a head, got {self.head_width}; "
                "change width or heads, or use positions='learned'"
            )

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Key and value heads, as many as query heads unless said."""
        return self.kv_heads or self.heads

    @property
    def inner_width(self) -> int:
        """Values between the two layers of a perceptron."""
        return self.mlp_width or 4 * self.width


class KeyValueCache:
    """Keys and values of the tokens read so far, one pair a layer, in memory taken once.

    Args:
        capacity: tokens it can hold.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, keys_BGTD: Tensor, values_BGTD: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new tokens of a layer; gives its keys and values of all tokens so far."""
        end = self.length + keys_BGTD.shape[2]
        if end > self.capacity:
            raise ConfigError(
                f"the cache holds {self.capacity} tokens, {end} are needed; make it larger"
            )
        if layer not in self._pairs:
            self._pairs[layer] = (self._allocate(keys_BGTD), self._allocate(values_BGTD))
        keys, values = self._pairs[layer]
        keys[:, :, self.length : end] = keys_BGTD
        values[:, :, self.length : end] = values_BGTD
        return keys[:, :, :end], values[:, :, :end]

    def _allocate(self, like_BGTD: Tensor) -> Tensor:
        batch, heads, _, width = like_BGTD.shape
        return like_BGTD.new_zeros(batch, heads, self.capacity, width)

    def advance(self, tokens: int) -> None:
        """Count tokens as read, once every layer has them."""
        self.length += tokens

    def keep(self, rows: Tensor) -> None:
        """Keep only these sequences, for when others have ended."""
        self._pairs = {
            layer: (keys[rows], values[rows]) for layer, (keys, values) in self._pairs.items()
        }


def make_norm(config: CausalLMConfig) -> nn.Module:
    """The norm that a config asks for, on `meta`."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=1e-6, device="meta")
    return nn.LayerNorm(config.width, eps=1e-5, device="meta")


def rotary_angles(positions_BT: Tensor, width: int, base: float) -> Tensor:
    """Angles [B, T, width/2] in float64, whatever the model's type: nothing rounds on the way."""
    powers = torch.arange(0, width, 2, device=positions_BT.device, dtype=torch.float64) / width
    return positions_BT.to(torch.float64)[..., None] * base**-powers


def _rotate(heads_BHTD: Tensor, angles_BTd: Tensor) -> Tensor:
    """Turn each pair (x_k, x_{k + D/2}) by its angle."""
    first, second = heads_BHTD.chunk(2, dim=-1)
    cosine = angles_BTd.cos().to(heads_BHTD.dtype)[:, None]
    sine = angles_BTd.sin().to(heads_BHTD.dtype)[:, None]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


class Attention(nn.Module):
    """Causal self-attention; several query heads may share a key head."""

    def __init__(self, config: CausalLMConfig, layer: int) -> None:
        super().__init__()
        self.config, self.layer = config, layer
        inner = config.key_heads * config.head_width
        self.query = nn.Linear(config.width, config.width, bias=config.bias, device="meta")
        self.key = nn.Linear(config.width, inner, bias=config.bias, device="meta")
        self.value = nn.Linear(config.width, inner, bias=config.bias, device="meta")
        self.out = nn.Linear(config.width, config.width, bias=config.bias, device="meta")

    def forward(
        self,
        stream_BTW: Tensor,
        angles_BTd: Tensor | None,
        allowed_B1TS: Tensor | None,
        cache: KeyValueCache | None,
    ) -> Tensor:
        """What the heads read, [B, T, W]; `allowed` None means causal with nothing in front."""
        query = self._heads(self.query(stream_BTW), self.config.heads)
        key = self._heads(self.key(stream_BTW), self.config.key_heads)
        value = self._heads(self.value(stream_BTW), self.config.key_heads)
        if angles_BTd is not None:
            query, key = _rotate(query, angles_BTd), _rotate(key, angles_BTd)
        if cache is not None:
            key, value = cache.extend(self.layer, key, value)
        queries_per_key = self.config.heads // self.config.key_heads
        if queries_per_key > 1:
            key, value = (
                key.repeat_interleave(queries_per_key, 1),
                value.repeat_interleave(queries_per_key, 1),
            )
        read = F.scaled_dot_product_attention(
            query, key, value, attn_mask=allowed_B1TS, is_causal=allowed_B1TS is None
        )
        mixed: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return mixed

    def _heads(self, values_BTX: Tensor, heads: int) -> Tensor:
        split = (*values_BTX.shape[:-1], heads, self.config.head_width)
        return values_BTX.view(split).transpose(1, 2)


class Block(nn.Module):
    """Attention, then a perceptron with GELU, each behind a norm and added to the stream."""

    def __init__(self, config: CausalLMConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = Attention(config, layer)
        self.mlp_norm = make_norm(config)
        self.up = nn.Linear(config.width, config.inner_width, bias=config.bias, device="meta")
        self.down = nn.Linear(config.inner_width, config.width, bias=config.bias, device="meta")

    def forward(
        self,
        stream_BTW: Tensor,
        angles_BTd: Tensor | None,
        allowed_B1TS: Tensor | None,
        cache: KeyValueCache | None,
    ) -> Tensor:
        """The residual stream after this block."""
        normed = self.attention_norm(stream_BTW)
        stream_BTW = stream_BTW + self.attention(normed, angles_BTd, allowed_B1TS, cache)
        added: Tensor = self.down(F.gelu(self.up(self.mlp_norm(stream_BTW))))
        return stream_BTW + added


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
        self.norm = make_norm(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False, device="meta")
        self.to_empty(device="cpu")
        self._draw_weights()
        if config.tied:
            self.head.weight = self.embedding.weight

    def _draw_weights(self) -> None:
        """Normal with 0.02, what adds to the stream narrower by its depth (GPT-2's rule)."""
        generator = RandomStream(self.config.seed, "causal_lm.weights").torch_generator()
        residual_std = 0.02 / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                is_residual = name.endswith(("attention.out.weight", "down.weight"))
                nn.init.normal_(
                    parameter, std=residual_std if is_residual else 0.02, generator=generator
                )
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
        positions_BT = _token_positions(input_ids, attention_mask, past)
        allowed_B1TS = _attention_mask(input_ids.shape[1], attention_mask, past, input_ids.device)
        stream_BTW, angles_BTd = self.embedding(input_ids), None
        if self.places is not None:
            stream_BTW = stream_BTW + self.places(positions_BT)
        else:
            angles_BTd = rotary_angles(
                positions_BT, self.config.head_width, self.config.rotary_base
            )
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


def _token_positions(input_ids: Tensor, mask_BS: Tensor | None, past: int) -> Tensor:
    """The place of each new token among the real ones; padding counts as place 0."""
    if mask_BS is None:
        positions = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        return positions.expand(input_ids.shape[0], -1)
    return (mask_BS.long().cumsum(1) - 1).clamp(min=0)[:, past:]


def _attention_mask(
    tokens: int, mask_BS: Tensor | None, past: int, device: torch.device
) -> Tensor | None:
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
