"""A decoder of the 1.5 B kind for the influence benchmark; its pointwise work is compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from midstep.influence.gradients.execution import fused

__all__ = ["Decoder", "Shape", "decoder"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A decoder of the 1.5 B kind: grouped-query attention, gated perceptron, tied head."""

    layers: int = 28
    width: int = 1536
    inner: int = 8960
    heads: int = 12
    key_heads: int = 2
    vocabulary: int = 151_936
    context: int = 512

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.width // self.heads


@fused
def scaled_norm(stream: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = stream.float() if stream.dtype != torch.float64 else stream
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(
        stream.dtype
    ) * weight


@fused
def gated(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


@fused
def turned_heads(
    mixed: Tensor, cosine: Tensor, sine: Tensor, heads: int, key_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values [B, T, H, D], places turned into the first two."""
    batch, tokens = mixed.shape[:2]
    width = mixed.shape[2] // (heads + 2 * key_heads)
    parts = mixed.view(batch, tokens, heads + 2 * key_heads, width)
    query, key, value = torch.split(parts, [heads, key_heads, key_heads], dim=2)

    def turn(each: Tensor) -> Tensor:
        first, second = each.chunk(2, dim=-1)
        turned = [first * cosine - second * sine, first * sine + second * cosine]
        return torch.cat(turned, dim=-1).to(mixed.dtype)

    return turn(query), turn(key), value.clone()


class Norm(nn.RMSNorm):
    """RMSNorm whose pointwise work is compiled."""

    def forward(self, stream: Tensor) -> Tensor:
        """The stream at unit scale, times the weight."""
        return scaled_norm(stream, self.weight, self.eps or 1e-6)


class Block(nn.Module):
    """Attention and gated perceptron, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide = (shape.heads + 2 * shape.key_heads) * shape.head_width
        self.attention_norm, self.mlp_norm = (
            Norm(shape.width, eps=1e-6),
            Norm(shape.width, eps=1e-6),
        )
        self.qkv = nn.Linear(shape.width, wide)
        self.out_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.inner, bias=False)
        self.up = nn.Linear(shape.width, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, stream: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """The residual stream after this block."""
        mixed = self.qkv(self.attention_norm(stream))
        query, key, value = turned_heads(
            mixed, cosine, sine, self.shape.heads, self.shape.key_heads
        )
        read = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
            is_causal=True, enable_gqa=True,
        )  # fmt: skip
        stream = stream + self.out_proj(read.transpose(1, 2).flatten(2))
        normed = self.mlp_norm(stream)
        added: Tensor = self.down(gated(self.gate(normed), self.up(normed)))
        return stream + added


class Decoder(nn.Module):
    """The whole model; `hidden` and `head` apart."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.config = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, eps=1e-6)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        places = torch.arange(shape.context, dtype=torch.float32)[:, None, None]
        powers = torch.arange(shape.head_width // 2, dtype=torch.float32) * 2 / shape.head_width
        angles = places * 1e6**-powers
        self.cosine: Tensor
        self.sine: Tensor
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def _apply(self, function: Any, recurse: bool = True) -> Decoder:
        """As ever, but the angles of the places stay in float32."""
        angles = self.cosine, self.sine
        super()._apply(function, recurse)  # type: ignore[no-untyped-call]
        self.cosine, self.sine = (
            each.to(now.device) for each, now in zip(angles, (self.cosine, self.sine), strict=True)
        )
        return self

    def hidden(self, input_ids: Tensor) -> Tensor:
        """What the head reads."""
        stream = self.embedding(input_ids)
        tokens = input_ids.shape[1]
        cosine, sine = self.cosine[:tokens], self.sine[:tokens]
        for block in self.blocks:
            stream = block(stream, cosine, sine)
        normed: Tensor = self.norm(stream)
        return normed

    def forward(self, input_ids: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.hidden(input_ids))
        return logits


def decoder(shape: Shape, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Decoder:
    """A model with drawn weights; what adds to the stream is narrower by its depth."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = Decoder(shape).to(dtype)
    narrow = 0.02 / math.sqrt(2 * shape.layers)
    for name, each in model.named_parameters():
        if each.dim() == 2:
            nn.init.normal_(each, std=narrow if "out_proj" in name or "down" in name else 0.02)
        elif name.endswith("bias"):
            nn.init.normal_(each, std=0.02)
    return model.eval()
