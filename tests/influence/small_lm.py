"""A tiny language model for the tests of sampling and of the runner, and its brute-force twins."""

from __future__ import annotations

import torch

from midstep.influence.sampling import (
    Arithmetic,
    ArithmeticConfig,
    CharacterTokenizer,
    DecodingConfig,
    SampleGenerator,
)
from midstep.models.causal_lm import CausalLM, CausalLMConfig

ALPHABET = "0123456789+-="


def small_model(dtype: torch.dtype = torch.float32, **changes) -> CausalLM:
    """Weights wide enough that no distribution is flat and no draw sure."""
    tokenizer = CharacterTokenizer(ALPHABET)
    settings = {"vocab_size": tokenizer.vocab_size, "width": 16, "layers": 2, "heads": 2}
    model = CausalLM(CausalLMConfig(**(settings | {"context": 24, "kv_heads": 1} | changes)))
    drawn = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=drawn), alpha=0.2)
    return model.to(dtype)


def small_generator(model: CausalLM | None = None, **decoding) -> SampleGenerator:
    settings = {"max_new_tokens": 6} | decoding
    return SampleGenerator(
        model if model is not None else small_model(),
        CharacterTokenizer(ALPHABET),
        Arithmetic(ArithmeticConfig(largest=9)),
        decoding=DecodingConfig(**settings),
    )


def adamw(model: CausalLM, steps: int = 3, **settings) -> torch.optim.AdamW:
    """An optimizer with state: it took a few steps on noise, at the rate of 1e-3."""
    optimizer = torch.optim.AdamW(model.parameters(), **({"lr": 1e-3} | settings))
    drawn = torch.Generator().manual_seed(3)
    for _ in range(steps):
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=drawn).to(parameter.dtype)
            parameter.grad = noise * 0.1
        optimizer.step()
    optimizer.zero_grad()
    return optimizer
