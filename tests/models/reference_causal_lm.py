"""The slow, obvious twin of the small language model: one sequence, head, token at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from midstep.models.causal_lm import CausalLM


def reference_logits(model: CausalLM, tokens: list[int]) -> Tensor:
    """Logits [T, vocabulary] of one sequence without padding."""
    config, weights = model.config, dict(model.named_parameters(remove_duplicate=False))
    stream = [weights["embedding.weight"][token] for token in tokens]
    if config.positions == "learned":
        stream = [x + weights["places.weight"][place] for place, x in enumerate(stream)]
    for layer in range(config.layers):
        stream = _block(model, weights, f"blocks.{layer}.", stream)
    normed = [_norm(model, weights, "norm", x) for x in stream]
    return torch.stack([weights["head.weight"] @ x for x in normed])


def _block(model: CausalLM, weights: dict[str, Tensor], at: str, stream: list[Tensor]) -> list:
    config = model.config
    normed = [_norm(model, weights, f"{at}attention_norm", x) for x in stream]
    query, key, value = (
        [_linear(weights, f"{at}attention.{part}", x) for x in normed]
        for part in ("query", "key", "value")
    )
    read = [
        torch.cat([_head(model, query, key, value, head, t) for head in range(config.heads)])
        for t in range(len(stream))
    ]
    stream = [
        x + _linear(weights, f"{at}attention.out", r) for x, r in zip(stream, read, strict=True)
    ]
    made = []
    for x in stream:
        inner = _linear(weights, f"{at}up", _norm(model, weights, f"{at}mlp_norm", x))
        gelu = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        made.append(x + _linear(weights, f"{at}down", gelu))
    return made


def _head(model: CausalLM, query: list, key: list, value: list, head: int, t: int) -> Tensor:
    config, width = model.config, model.config.head_width
    group = head // (config.heads // config.key_heads)
    mine, theirs = (
        slice(head * width, (head + 1) * width),
        slice(group * width, (group + 1) * width),
    )
    asked = _turned(config, query[t][mine], t)
    scores = torch.stack(
        [asked @ _turned(config, key[s][theirs], s) / math.sqrt(width) for s in range(t + 1)]
    )
    shares = scores.exp() / scores.exp().sum()
    return sum(share * value[s][theirs] for s, share in enumerate(shares))


def _turned(config, x: Tensor, place: int) -> Tensor:
    """Rotary places as complex numbers: one multiplication by exp(i angle)."""
    if config.positions == "learned":
        return x
    half = len(x) // 2
    angle = torch.tensor(
        [place * config.rotary_base ** (-2 * k / len(x)) for k in range(half)], dtype=torch.float64
    )
    turned = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag])


def _norm(model: CausalLM, weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    if model.config.norm == "rms":
        return x / (x.square().mean() + 1e-6).sqrt() * weights[f"{name}.weight"]
    centred = x - x.mean()
    scaled = centred / (centred.square().mean() + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    made = weights[f"{name}.weight"] @ x
    return made + weights[f"{name}.bias"] if f"{name}.bias" in weights else made
