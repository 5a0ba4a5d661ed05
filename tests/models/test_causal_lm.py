"""The small language model equals its obvious twin, padded, cached or neither."""

from __future__ import annotations

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.models.causal_lm import CausalLM, CausalLMConfig, KeyValueCache
from tests.models.reference_causal_lm import reference_logits

FAMILIES = {
    "rotary": {},
    "grouped": {"kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "learned": {"positions": "learned"},
    "gpt": {"positions": "learned", "norm": "layer", "bias": True},
    "untied": {"tied": False, "norm": "layer"},
}
TOKENS = [3, 1, 4, 1, 5]


def make(**changes) -> CausalLM:
    """A tiny model in float64 whose norms and biases are no longer ones and zeros."""
    settings = {"vocab_size": 13, "width": 16, "layers": 2, "heads": 4, "context": 12} | changes
    model = CausalLM(CausalLMConfig(**settings)).double()
    drawn = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=drawn).double(), alpha=0.3)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_the_twin(family: str) -> None:
    model = make(**FAMILIES[family])
    torch.testing.assert_close(
        model(torch.tensor([TOKENS]))[0], reference_logits(model, TOKENS), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(family: str, side: str) -> None:
    model = make(**FAMILIES[family])
    padding, ones = [9, 9, 9], [1] * len(TOKENS)
    ids = padding + TOKENS if side == "left" else TOKENS + padding
    mask = [0] * 3 + ones if side == "left" else ones + [0] * 3
    logits = model(torch.tensor([ids]), torch.tensor([mask]))[0]
    kept = logits[3:] if side == "left" else logits[:-3]
    torch.testing.assert_close(kept, model(torch.tensor([TOKENS]))[0], rtol=1e-11, atol=1e-12)


def test_gradients_under_left_padding_are_those_without() -> None:
    model = make()
    plain = torch.autograd.grad(model(torch.tensor([TOKENS])).sum(), list(model.parameters()))
    ids, mask = torch.tensor([[0, 0, *TOKENS]]), torch.tensor([[0, 0, 1, 1, 1, 1, 1]])
    padded = torch.autograd.grad(model(ids, mask)[:, 2:].sum(), list(model.parameters()))
    for one, other in zip(plain, padded, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_cache_gives_the_logits_of_one_pass(family: str) -> None:
    model = make(**FAMILIES[family])
    ids = torch.tensor([[0, 0, *TOKENS], [7, 8, *TOKENS]])
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7])
    whole = model(ids, mask)
    cache = KeyValueCache(7)
    parts = [model(ids[:, :4], mask[:, :4], cache)]
    parts += [model(ids[:, t : t + 1], mask[:, : t + 1], cache) for t in range(4, 7)]
    real = mask.bool()
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], rtol=1e-11, atol=1e-12)


def test_cache_without_mask_and_with_rows_dropped_goes_on() -> None:
    model = make()
    ids = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
    cache = KeyValueCache(4)
    model(ids[:, :3], cache=cache)
    cache.keep(torch.tensor([1]))
    last = model(ids[1:, 3:], cache=cache)
    torch.testing.assert_close(last[:, 0], model(ids)[1:, 3], rtol=1e-11, atol=1e-12)


def test_head_of_hidden_is_forward() -> None:
    model, ids = make(), torch.tensor([TOKENS])
    assert torch.equal(model.head(model.hidden(ids)), model(ids))


def test_tied_head_shares_its_weights_and_untied_does_not() -> None:
    tied, untied = make(), make(tied=False)
    assert tied.head.weight is tied.embedding.weight
    assert untied.head.weight is not untied.embedding.weight
    assert "head.weight" not in dict(tied.named_parameters())


def test_same_seed_gives_same_weights_and_draws_nothing_global() -> None:
    before = torch.get_rng_state()
    one, two = (CausalLM(CausalLMConfig(vocab_size=9, width=8, heads=2)) for _ in range(2))
    other = CausalLM(CausalLMConfig(vocab_size=9, width=8, heads=2, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.embedding.weight, other.embedding.weight)


def test_sequence_longer_than_the_context_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"13 tokens is longer than the context of 12; shorten"):
        make()(torch.zeros(1, 13, dtype=torch.long))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"width": 15}, "not a multiple of heads"),
        ({"kv_heads": 3}, "not a multiple of kv_heads"),
        ({"width": 12}, "even number"),
        ({"layers": 0}, "layers must be"),
        ({"positions": "none"}, "positions must be"),
        ({"norm": "batch"}, "norm must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make(**changes)
