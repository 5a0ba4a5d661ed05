"""Same seed, same tokens, whatever the micro-batch; drawn as the model says."""

from __future__ import annotations

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.influence.sampling.decoding import (
    DecodingConfig,
    DrawKey,
    decode,
    gumbel_argmax,
    gumbel_noise,
)
from midstep.influence.sampling.language_models import BuiltInModel
from tests.influence.small_lm import small_generator, small_model

PROMPTS = [[1, 5, 14, 6], [1, 7, 8, 15, 4, 16], [1, 9], [1, 4, 4, 4, 14, 5, 16], [1, 6, 6]]


def tokens(model, **settings) -> list[list[int]]:
    addresses = [DrawKey(3, f"p{at}", 0) for at in range(len(PROMPTS))]
    config = DecodingConfig(**({"max_new_tokens": 16} | settings))
    made = decode(BuiltInModel(model), PROMPTS, addresses, end_id=5, pad_id=0, config=config)
    return [one.tokens for one in made]


@pytest.mark.parametrize("positions", ["rotary", "learned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tokens_do_not_depend_on_the_micro_batch(positions: str, dtype: torch.dtype) -> None:
    model = small_model(dtype, positions=positions)
    alone = tokens(model, microbatch=1)
    assert [tokens(model, microbatch=size) for size in (2, 3, 5)] == [alone] * 3
    assert len({len(one) for one in alone}) > 1  # some ended early, so rows were dropped


class _Rounding(BuiltInModel):
    """A model whose logits depend on the size of the batch, far more than rounding ever does."""

    def decoder(self, capacity):
        inner = super().decoder(capacity)
        read = inner.read

        def noisy(ids, mask):
            logits = read(ids, mask)
            drawn = torch.Generator().manual_seed(1000 * len(ids) + mask.shape[1])
            return logits + 0.1 * (2 * torch.rand(logits.shape, generator=drawn) - 1)

        inner.read = noisy
        return inner


def test_close_decisions_do_not_follow_the_rounding_of_the_batch() -> None:
    model = _Rounding(small_model())
    prompts, addresses = PROMPTS * 8, [DrawKey(3, f"p{at}", 0) for at in range(40)]

    def drawn(size: int, margin: float) -> list[list[int]]:
        config = DecodingConfig(max_new_tokens=10, microbatch=size, margin=margin)
        made = decode(model, prompts, addresses, end_id=5, pad_id=0, config=config)
        return [one.tokens for one in made]

    assert drawn(1, 0.21) == drawn(7, 0.21) == drawn(40, 0.21)
    assert drawn(1, 0.0) != drawn(40, 0.0)  # so the margin is what did it


def test_every_token_decided_alone_is_the_same_again() -> None:
    model = small_model()
    assert tokens(model, margin=1e9) == tokens(model) == tokens(model, margin=0.0)


def test_cached_tokens_equal_those_of_a_loop_without_cache() -> None:
    model = small_model(torch.float64)
    made = []
    for at, prompt in enumerate(PROMPTS):
        drawn: list[int] = []
        while len(drawn) < 16 and 5 not in drawn:
            logits = model(torch.tensor([[*prompt, *drawn]]))[:, -1]
            key = torch.tensor([DrawKey(3, f"p{at}", 0).key(len(drawn))])
            drawn.append(int((logits + gumbel_noise(key, logits.shape[1])).argmax()))
        made.append(drawn)
    assert tokens(model) == made


def test_the_context_ends_each_response_at_its_own_length() -> None:
    model = small_model(context=9)
    alone = tokens(model, microbatch=1, max_new_tokens=20)
    assert tokens(model, microbatch=5, max_new_tokens=20) == alone
    for prompt, drawn in zip(PROMPTS, alone, strict=True):
        assert len(prompt) + len(drawn) == 9 or drawn[-1] == 5


def test_prompt_as_long_as_the_context_is_refused() -> None:
    with pytest.raises(ConfigError, match="7 tokens, which leaves no room"):
        tokens(small_model(context=7))


def test_draws_follow_the_softmax() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0]]).expand(20_000, -1)
    drawn, _ = gumbel_argmax(logits, torch.arange(20_000), temperature=0.5)
    shares = torch.bincount(drawn, minlength=4) / 20_000
    torch.testing.assert_close(shares, (logits[0] / 0.5).softmax(0), atol=0.01, rtol=0)


def test_temperature_zero_takes_the_likeliest() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0]])
    drawn, gap = gumbel_argmax(logits, torch.tensor([5]), temperature=0.0)
    assert drawn.tolist() == [1]
    assert gap.tolist() == [2.0]


def test_noise_of_one_token_knows_nothing_of_the_vocabulary_or_the_batch() -> None:
    keys = torch.tensor([7, -3, 99])
    assert torch.equal(gumbel_noise(keys, 50)[1, :20], gumbel_noise(keys[1:2], 20)[0])
    noise = gumbel_noise(torch.arange(200), 500)
    assert abs(noise.mean().item() - 0.5772) < 0.01  # the mean of a Gumbel is Euler's constant


def test_generation_and_teacher_forcing_agree_token_by_token() -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        batch = small_generator(small_model(dtype)).generate_update_batch(4, 3, seed=5)
        for record in batch:
            assert record.sampler_logprobs == pytest.approx(record.logprobs, abs=tolerance)


def test_sampler_logprobs_are_those_of_the_temperature() -> None:
    model = small_model(torch.float64)
    batch = small_generator(model, temperature=0.7).generate_evaluation_batch(3, seed=2)
    for record in batch:
        ids = torch.tensor([[*record.prompt_tokens, *record.response_tokens]])
        logs = (model(ids)[0] / 0.7).log_softmax(1)
        start = len(record.prompt_tokens) - 1
        drawn = [logs[start + at, token].item() for at, token in enumerate(record.response_tokens)]
        assert record.sampler_logprobs == pytest.approx(drawn, abs=1e-10)
        assert record.sampler_logprobs != pytest.approx(record.logprobs, abs=1e-3)


def test_decoding_leaves_the_model_in_its_mode_and_draws_nothing_global() -> None:
    model, before = small_model(), torch.get_rng_state()
    model.train()
    tokens(model)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
