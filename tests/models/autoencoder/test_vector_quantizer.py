"""The quantizer `vq`: codes in use, exact resume, and counts against a direct count."""

from __future__ import annotations

import copy
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.models.autoencoder import (
    CodebookUsage,
    LatentSpace,
    LatentSpaceConfig,
    build_latent_space,
)
from midstep.models.autoencoder.latent.vector_quantizer import nearest_codes


def quantizer(codebook_size: int = 16, latent_dim: int = 3, name: str = "vq") -> LatentSpace:
    torch.manual_seed(0)
    config = LatentSpaceConfig(name=name, codebook_size=codebook_size, latent_dim=latent_dim)
    return build_latent_space(config)


def direct_perplexity(codes: list[int]) -> float:
    shares = [count / len(codes) for count in Counter(codes).values()]
    return math.exp(-sum(share * math.log(share) for share in shares))


def test_most_of_512_codes_are_in_use_on_1024_clusters() -> None:
    generator = torch.Generator().manual_seed(3)
    centers = 5 * torch.randn(1024, 8, generator=generator)
    vq = quantizer(512, 8)
    for _ in range(80):
        cluster = torch.randint(1024, (128,), generator=generator)
        vq(centers[cluster] + 0.1 * torch.randn(128, 8, generator=generator))
    vq.eval()
    vq.usage.finish_epoch()
    codes = vq(centers).codes
    assert len(codes.unique()) >= 0.6 * 512
    vq.usage.add_codes(codes)
    assert vq.usage.statistics().usage >= 0.6


def test_codes_are_the_nearest_by_direct_distance() -> None:
    latents, codebook = torch.randn(40, 3), torch.randn(16, 3)
    distances = (latents.unsqueeze(1) - codebook).square().sum(-1)
    assert torch.equal(nearest_codes(latents, codebook), distances.argmin(1))


@pytest.mark.parametrize("batch_size", [1, 7, 64, 500])
def test_epoch_perplexity_is_the_direct_count_for_any_batch_size(batch_size: int) -> None:
    codes = torch.randint(16, (500,), generator=torch.Generator().manual_seed(4)) // 3
    usage = CodebookUsage(16)
    for batch in codes.split(batch_size):
        usage.add_codes(batch)
    statistics = usage.finish_epoch()
    assert statistics.perplexity == pytest.approx(direct_perplexity(codes.tolist()), rel=1e-12)
    assert statistics.usage == 6 / 16
    assert statistics.dead_codes == 10


@given(st.lists(st.integers(0, 7), min_size=1, max_size=40), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_counts_of_ranks_add_up(codes: list[int], cut: int) -> None:
    whole, first, second = CodebookUsage(8), CodebookUsage(8), CodebookUsage(8)
    whole.add_codes(torch.tensor(codes))
    first.add_codes(torch.tensor(codes[:cut], dtype=torch.long))
    second.add_codes(torch.tensor(codes[cut:], dtype=torch.long))
    first.add_counts(second.state_dict()["counts"])
    assert first.statistics() == whole.statistics()


def test_age_of_a_code_is_the_epochs_since_its_last_use() -> None:
    usage = CodebookUsage(3)
    for epoch in ([0, 1], [0], [0]):
        usage.add_codes(torch.tensor(epoch))
        statistics = usage.finish_epoch()
    assert usage.unused_epochs.tolist() == [[0, 2, 3]]
    assert (statistics.dead_codes, statistics.oldest_dead_epochs) == (2, 3)


def test_training_forward_counts_its_own_codes() -> None:
    vq = quantizer()
    codes = [vq(torch.randn(20, 3)).codes for _ in range(5)]
    expected = direct_perplexity(torch.cat(codes).tolist())
    assert vq.usage.statistics().perplexity == pytest.approx(expected)
    vq.eval()
    vq(torch.randn(20, 3))
    assert vq.usage.statistics().perplexity == pytest.approx(expected)


@pytest.mark.parametrize("step", [0, 1, 30])
@pytest.mark.parametrize("name", ["vq", "residual_vq", "fsq"])
def test_resume_repeats_the_same_bits(name: str, step: int) -> None:
    batches = torch.randn(40, 8, 3, generator=torch.Generator().manual_seed(5))
    vq = quantizer(name=name)
    for batch in batches[:step]:
        vq(batch)
    state, random_state = copy.deepcopy(vq.state_dict()), torch.get_rng_state()
    for batch in batches[step:]:
        vq(batch)
    resumed = quantizer(name=name)
    resumed.load_state_dict(state)
    torch.set_rng_state(random_state)
    for batch in batches[step:]:
        resumed(batch)
    for name, value in vq.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_gradient_passes_straight_through_and_commits() -> None:
    vq = quantizer().eval()
    latent = torch.randn(5, 3, requires_grad=True)
    output = vq(latent)
    output.quantized.sum().backward(retain_graph=True)
    assert torch.equal(latent.grad, torch.ones(5, 3))
    latent.grad = None
    output.losses["commitment"].backward()
    expected = 0.25 * 2 * (latent - vq.codebook[output.codes]) / latent.numel()
    assert torch.allclose(latent.grad, expected.detach())


def test_a_batch_that_is_not_finite_leaves_the_codebook_unharmed() -> None:
    vq, bad = quantizer(), torch.full((30, 3), math.nan)
    vq(bad)
    assert not vq.is_initialised
    vq(torch.randn(30, 3))
    vq(bad)
    assert all(value.isfinite().all() for value in vq.state_dict().values())


def test_codes_are_chosen_in_full_precision_under_autocast() -> None:
    vq = quantizer().eval()
    latent = torch.randn(50, 3)
    expected = vq(latent).codes
    with torch.autocast("cpu", torch.bfloat16):
        output = vq(latent)
    assert torch.equal(output.codes, expected)
    assert output.quantized.dtype == torch.float32
