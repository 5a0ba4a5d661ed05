"""Labels of clusters against slow twins, sample by sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError
from midstep.data import Ragged
from midstep.data.cluster_labels import label_formulas as formulas
from midstep.data.cluster_labels.label_formulas import (
    combined_labels,
    source_labels,
    steering_labels,
)

CHANCE = np.random.default_rng(0)
CENTROIDS, STEERING, TERMS = (CHANCE.standard_normal((rows, 5)) for rows in (4, 7, 6))
STEERING[2] = 0
IDS = Ragged.from_lists([[0, 1], [], [3], [2, 2, 1], [0], [5, 3, 4, 1], []])


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    lengths = math.sqrt(a @ a) * math.sqrt(b @ b)
    return 1 - float(a @ b) / lengths


def slow_softmax(scores: list[float]) -> list[float]:
    shares = [math.exp(score) for score in scores]
    return [share / sum(shares) for share in shares]


def slow_source(terms: list[np.ndarray], temperature: float) -> list[float]:
    if not terms:
        return [1 / len(CENTROIDS)] * len(CENTROIDS)
    means = [sum(cosine_distance(term, c) for term in terms) / len(terms) for c in CENTROIDS]
    return slow_softmax([-mean / temperature for mean in means])


def slow_steering(vector: np.ndarray, temperature: float) -> list[float]:
    if not vector.any():
        return [1 / len(CENTROIDS)] * len(CENTROIDS)
    return slow_softmax([-cosine_distance(vector, c) / temperature for c in CENTROIDS])


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_source_labels_equal_the_formula(temperature: float) -> None:
    made = source_labels(CENTROIDS, TERMS, IDS, temperature=temperature)
    for row in range(7):
        expected = slow_source([TERMS[each] for each in IDS[row]], temperature)
        np.testing.assert_allclose(made[row], expected, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_steering_labels_equal_the_formula(temperature: float) -> None:
    made = steering_labels(STEERING, CENTROIDS, temperature=temperature)
    for row in range(7):
        np.testing.assert_allclose(made[row], slow_steering(STEERING[row], temperature), atol=1e-6)
    assert made[2].tolist() == [0.25] * 4  # no steering says nothing


def test_labels_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = source_labels(CENTROIDS, TERMS, IDS), steering_labels(STEERING, CENTROIDS)
    monkeypatch.setattr(formulas, "BLOCK_PAIRS", 3)
    parts = source_labels(CENTROIDS, TERMS, IDS), steering_labels(STEERING, CENTROIDS)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_given_probabilities_stand_and_the_other_rows_follow_their_terms() -> None:
    probabilities = np.full((7, 4), np.nan)
    probabilities[3] = [0.1, 0.2, 0.3, 0.4]
    made = source_labels(CENTROIDS, TERMS, IDS, given_NC=probabilities)
    np.testing.assert_allclose(made[3], [0.1, 0.2, 0.3, 0.4], atol=1e-7)
    np.testing.assert_array_equal(made[:3], source_labels(CENTROIDS, TERMS, IDS)[:3])


shares = st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3)


@given(source=shares, steering=shares, weight=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_combined_is_the_weighted_sum_and_normalised(source, steering, weight: float) -> None:
    made = combined_labels(np.array([source]), np.array([steering]), weight=weight)[0]
    mixed = [(1 - weight) * a + weight * b for a, b in zip(source, steering, strict=True)]
    np.testing.assert_allclose(made, [each / sum(mixed) for each in mixed], rtol=1e-5)
    assert float(made.sum()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_temperature_must_be_above_zero(temperature: float) -> None:
    with pytest.raises(ConfigError, match="temperature must be a number above 0"):
        steering_labels(STEERING, CENTROIDS, temperature=temperature)


def test_weight_must_be_a_share() -> None:
    with pytest.raises(
        ConfigError, match=r"combined_weight must be a number from 0 to 1, got 1\.5"
    ):
        combined_labels(np.ones((1, 2)), np.ones((1, 2)), weight=1.5)
