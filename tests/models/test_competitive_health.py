"""Measures of health against direct computation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.models.competitive import feature_measures
from tests.models import reference_competitive as slow


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(seed=st.integers(0, 2**32 - 1), features=st.integers(1, 8), inputs=st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_weights_measure_as_in_the_slow_twin(seed: int, features: int, inputs: int) -> None:
    weight = drawn(seed, features, inputs)
    expected = slow.mean_pairwise_cosine(weight.tolist())
    assert feature_measures.mean_pairwise_cosine(weight) == pytest.approx(expected, abs=1e-9)
    singular = torch.linalg.svd(weight).S.tolist()
    assert feature_measures.effective_rank(weight) == pytest.approx(slow.effective_rank(singular))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_gini_is_the_mean_difference(rates: list[float]) -> None:
    measured = feature_measures.gini(torch.tensor(rates, dtype=torch.float64))
    assert measured == pytest.approx(slow.gini(rates), abs=1e-9)


def test_effective_rank_counts_equal_directions() -> None:
    assert feature_measures.effective_rank(torch.eye(6, 20)) == pytest.approx(6)
    assert feature_measures.effective_rank(torch.ones(6, 20)) == pytest.approx(1)
    assert feature_measures.effective_rank(torch.zeros(6, 20)) == 0
    assert math.isnan(feature_measures.effective_rank(torch.full((2, 2), math.nan)))


def test_cosine_of_equal_rows_is_one_and_of_a_zero_row_nothing() -> None:
    assert feature_measures.mean_pairwise_cosine(torch.ones(4, 3)) == pytest.approx(1)
    assert feature_measures.mean_pairwise_cosine(torch.zeros(4, 3)) == 0
    assert feature_measures.mean_pairwise_cosine(torch.ones(1, 3)) == 0


def test_features_are_dead_below_one_percent_and_winners_above_five() -> None:
    rates = torch.tensor([0.0, 0.0099, 0.01, 0.05, 0.0501, 1.0], dtype=torch.float64)
    assert (feature_measures.dead(rates), feature_measures.winners(rates)) == (2, 2)


def test_unreachable_needs_both_forces_to_be_gone() -> None:
    grad, som = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 0.0])
    assert feature_measures.unreachable(grad, som) == 1
    assert feature_measures.unreachable(grad, som, below=2.0) == 3


def test_reconstructions_measure_in_pixels_and_decibels() -> None:
    images = torch.tensor([[0.0, 1.0, 0.5, 0.5]])
    assert feature_measures.l1(images, images) == 0
    assert feature_measures.psnr(images, images) == math.inf
    assert feature_measures.l1(images + 0.1, images) == pytest.approx(0.1)
    assert feature_measures.psnr(images + 0.1, images) == pytest.approx(20, abs=1e-4)
    assert feature_measures.psnr(images + 25.5, images, peak=255.0) == pytest.approx(20, abs=1e-4)


def test_velocity_is_distance_per_step() -> None:
    before, after = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert feature_measures.velocity(before, after, 10).tolist() == [0.5, 0.0]
