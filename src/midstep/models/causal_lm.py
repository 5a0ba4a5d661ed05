"""A small causal language model: trains in a minute, can be sampled from and inspected.

It computes in the type of its weights throughout, so float64 is float64 everywhere.

Shapes: B sequences, T new tokens, S all tokens so far, W values of a token, H query heads, G key
heads, D values of a head, d = D/2, X any.
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
from midstep.core.field_checks import at_least, one_of, require
from midstep.core.random_streams import RandomStream

Positions = Literal["rotary", "learned"]
Norm = Literal["rms", "layer"]

_COUNTS = ("vocab_size", "width", "layers", "heads", "kv_heads", "mlp_width", "context")


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    """Sizes and parts of a small causal language model.

    >>> CausalLMConfig(vocab_size=32, heads=4, kv_heads=2).head_width
    32
    """

    vocab_size: int
    """Tokens of the vocabulary."""
    width: int = 128
    """Values of a token in the residual stream."""
    layers: int = 4
    """Blocks of attention and perceptron."""
    heads: int = 4
    """Query heads of a block; `width` is a multiple of it."""
    kv_heads: int | None = None
    """Key and value heads (grouped-query attention); `heads` is a multiple of it. None: `heads`."""
    mlp_width: int | None = None
    """Values between the two layers of a perceptron. None: four times `width`."""
    positions: Positions = "rotary"
    """rotary: queries and keys are rotated (Su et al. 2021); learned: a vector per position."""
    tied: bool = True
    """The head shares the weights of the embedding."""
    norm: Norm = "rms"
    """rms: scale alone (Zhang, Sennrich 2019); layer: mean, scale and bias."""
    bias: bool = False
    """Whether linear layers of the blocks have biases."""
    context: int = 128
    """The most tokens of a sequence."""
    rotary_base: float = 10_000.0
    """Base of the wavelengths of rotary positions."""
    seed: int = 0
    """Seed of the initial weights. They come from their own stream, not from a global generator."""

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in _COUNTS}
        require(
            *(at_least(name, count, 1) for name, count in counts.items() if count is not None),
            one_of("positions", self.positions, get_args(Positions)),
            one_of("norm", self.norm, get_args(Norm)),
        )
        if self.width % self.heads:
            raise ConfigError(
                f"width={self.width} is not a multiple of heads={self.heads}; change one of them"
            )
        if self.heads % self.key_heads:
            raise ConfigError(
                f"heads={self.heads} is not a multiple of kv_heads={self.key_heads}; change one "
                "of them"
            )
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigError(
                f"rotary positions need an even number of values per head, got {self.head_width}; "
                "change width or heads, or use positions='learned'"
            )

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Key and value heads; by default as many as query heads."""
        return self.kv_heads or self.heads

    @property
    def inner_width(self) -> int:
        """Values between the two layers of a perceptron."""
        return self.mlp_width or 4 * self.width


class KeyValueCache:
    """Keys and values of the tokens so far, for each layer, in memory that is allocated once.

    Args:
        capacity: the most tokens it can hold.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, keys_BGTD: Tensor, values_BGTD: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new tokens of a layer, and return its keys and values of all tokens so far."""
        end = self.length + keys_BGTD.shape[2]
        if end > self.capacity:
            raise ConfigError(
                f"the cache holds {self.capacity} tokens, {end} are needed; make it larger"
            )
        # Allocated once at full capacity: `torch.cat` for each token would copy the whole cache.
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
        """Count new tokens as read, after every layer has added them."""
        self.length += tokens

    def keep(self, rows: Tensor) -> None:
        """Keep only these sequences, when others have ended."""
        self._pairs = {
            layer: (keys[rows], values[rows]) for layer, (keys, values) in self._pairs.items()
        }


def make_norm(config: CausalLMConfig) -> nn.Module:
    """The norm of a config, on device `meta`: without memory and without drawing weights."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=1e-6, device="meta")
    return nn.LayerNorm(config.width, eps=1e-5, device="meta")


def rotary_angles(positions_BT: Tensor, width: int, base: float) -> Tensor:
    """Rotary angles [B, T, width/2], in float64 for every model.

    In bfloat16 positions above 256 would be rounded to even numbers.
    """
    powers = torch.arange(0, width, 2, device=positions_BT.device, dtype=torch.float64) / width
    return positions_BT.to(torch.float64)[..., None] * base**-powers


def _rotate(heads_BHTD: Tensor, angles_BTd: Tensor) -> Tensor:
    """Rotate each pair (x_k, x_{k + D/2}) by its angle."""
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
        """Output [B, T, W] of the heads; `allowed` None means causal without padding or cache."""
        query = self._heads(self.query(stream_BTW), self.config.heads)
        key = self._heads(self.key(stream_BTW), self.config.key_heads)
        value = self._heads(self.value(stream_BTW), self.config.key_heads)
        if angles_BTd is not None:
            query, key = _rotate(query, angles_BTd), _rotate(key, angles_BTd)
        if cache is not None:
            key, value = cache.extend(self.layer, key, value)
        queries_per_key = self.config.heads // self.config.key_heads
        if queries_per_key > 1:
            key = key.repeat_interleave(queries_per_key, 1)
            value = value.repeat_interleave(queries_per_key, 1)
        read = F.scaled_dot_product_attention(
            query, key, value, attn_mask=allowed_B1TS, is_causal=allowed_B1TS is None
        )
        mixed: Tensor = self.out(read.transpose(1, 2).flatten(2))
        return mixed

    def _heads(self, values_BTX: Tensor, heads: int) -> Tensor:
        split = (*values_BTX.shape[:-1], heads, self.config.head_width)
        return values_BTX.view(split).transpose(1, 2)


class Block(nn.Module):
    """Attention, then a perceptron with GELU, each after a norm and added to the stream."""

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

    `hidden` and `head` are separate, so that logits over the vocabulary can be computed in tiles.

    >>> model = CausalLM(CausalLMConfig(vocab_size=11, width=8, layers=1, heads=2))
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 11])
    """

    def __init__(self, config: CausalLMConfig) -> None:
        super().__init__()
        self.config = config
        # On `meta` torch draws no weights from its global generator; ours come from their own
        # stream.
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
        """Normal weights of deviation 0.02, smaller where a layer adds to the stream (as GPT-2)."""
        generator = RandomStream(self.config.seed, "causal_lm.weights").torch_generator()
        # 2 · layers additions to the stream keep its variance with this deviation.
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
        """Logits [B, T, vocabulary] for the next token at each position.

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
        """The head's input, [B, T, width]; arguments as in `forward`."""
        past = cache.length if cache is not None else 0
        tokens = past + input_ids.shape[1]
        if tokens > self.config.context:
            raise ConfigError(
                f"a sequence of {tokens} tokens is longer than the context of "
                f"{self.config.context}; shorten it, or make a model with a larger context"
            )
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
            # After the loop: all layers of one call must see the same length.
            cache.advance(input_ids.shape[1])
        normed: Tensor = self.norm(stream_BTW)
        return normed


def _token_positions(input_ids: Tensor, mask_BS: Tensor | None, past: int) -> Tensor:
    """The position of each new token among the real tokens; padding has position 0."""
    if mask_BS is None:
        positions = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        return positions.expand(input_ids.shape[0], -1)
    return (mask_BS.long().cumsum(1) - 1).clamp(min=0)[:, past:]


def _attention_mask(
    tokens: int, mask_BS: Tensor | None, past: int, device: torch.device
) -> Tensor | None:
    """Which token may attend to which, [B or 1, 1, T, S]; None for plain causal attention.

    Padding attends to itself: a softmax over no token is NaN, which the backward pass would spread.
    """
    if mask_BS is None and past == 0:
        return None
    keys = torch.arange(past + tokens, device=device)
    queries = keys[past:, None]
    if mask_BS is None:
        return (keys <= queries)[None, None]
    seen_BTS = (keys <= queries) & mask_BS.bool()[:, None, :]
    return (seen_BTS | (keys == queries))[:, None]
