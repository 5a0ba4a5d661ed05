"""Parts of the small causal language model: rotary places, attention with a cache, a block.

Shapes: B sequences, T new tokens, S tokens with those in the cache, H query heads, G key heads,
D values a head, W values a token.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from midstep.core.errors import ConfigError
from midstep.models.causal_lm_config import CausalLMConfig

__all__ = ["Attention", "Block", "KeyValueCache", "norm_of", "rotary_angles"]


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
            self._pairs[layer] = (self._room(keys_BGTD), self._room(values_BGTD))
        keys, values = self._pairs[layer]
        keys[:, :, self.length : end] = keys_BGTD
        values[:, :, self.length : end] = values_BGTD
        return keys[:, :, :end], values[:, :, :end]

    def _room(self, like_BGTD: Tensor) -> Tensor:
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


def norm_of(config: CausalLMConfig) -> nn.Module:
    """The norm that a config asks for, on `meta`."""
    if config.norm == "rms":
        return nn.RMSNorm(config.width, eps=1e-6, device="meta")
    return nn.LayerNorm(config.width, eps=1e-5, device="meta")


def rotary_angles(places_BT: Tensor, width: int, base: float) -> Tensor:
    """Angles [B, T, width/2] in float64, whatever the model's type: nothing rounds on the way."""
    powers = torch.arange(0, width, 2, device=places_BT.device, dtype=torch.float64) / width
    return places_BT.to(torch.float64)[..., None] * base**-powers


def _turn(heads_BHTD: Tensor, angles_BTd: Tensor) -> Tensor:
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
            query, key = _turn(query, angles_BTd), _turn(key, angles_BTd)
        if cache is not None:
            key, value = cache.extend(self.layer, key, value)
        shared = self.config.heads // self.config.key_heads
        if shared > 1:
            key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
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
        self.attention_norm = norm_of(config)
        self.attention = Attention(config, layer)
        self.mlp_norm = norm_of(config)
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
