"""Steering vectors against a slow twin, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from midstep.core.errors import ConfigError
from midstep.data import Ragged
from midstep.data.steering.vectors import steering_tables

CHANCE = np.random.default_rng(0)
Q, C, K = (CHANCE.standard_normal((rows, 5)) for rows in (7, 7, 4))
IDS = Ragged.from_lists([[0, 1], [], [3], [2, 2, 1], [0], [1, 3], []])


def length_one(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(length_one(a) @ length_one(b))


def slow_standard(q: np.ndarray, c: np.ndarray, keywords: list[np.ndarray]) -> list[np.ndarray]:
    weights = [max(cosine(q, k), 0) for k in keywords]
    keyword = length_one(c)
    if sum(weights) > 0:
        keyword = length_one(sum(w * k for w, k in zip(weights, keywords, strict=True)))
    return [length_one(c), keyword, length_one(q - (q @ c) / (c @ c) * c)]


def slow_legacy(q: np.ndarray, c: np.ndarray, keywords: list[np.ndarray]) -> list[np.ndarray]:
    keyword = length_one(sum(keywords) / len(keywords)) if keywords else length_one(c - q)
    return [length_one(c - q), keyword, q - c]


@pytest.mark.parametrize(
    ("definition", "slow"), [("standard", slow_standard), ("legacy", slow_legacy)]
)
def test_tables_equal_the_formulas(definition: str, slow) -> None:
    made = steering_tables(Q, C, K, IDS, definition=definition)
    for pair in range(7):
        expected = slow(Q[pair], C[pair], [K[each] for each in IDS[pair]])
        for name, vector in zip(
            ("centroid", "keyword_weighted", "residual"), expected, strict=True
        ):
            np.testing.assert_allclose(made[f"steering_{name}"][pair], vector, atol=1e-6)
        assert made["centroid_distances"][pair] == pytest.approx(1 - cosine(Q[pair], C[pair]))


def test_residual_is_orthogonal_to_the_centroid() -> None:
    residual = steering_tables(Q, C, K, IDS)["steering_residual"]
    assert np.abs((residual * C).sum(axis=1)).max() < 1e-6


def test_given_weights_replace_the_cosine() -> None:
    weights = np.zeros(len(IDS.values))
    weights[1] = 2.0
    made = steering_tables(Q, C, K, IDS, keyword_weights=weights)["steering_keyword_weighted"]
    np.testing.assert_allclose(made[0], length_one(K[1]), atol=1e-6)
    np.testing.assert_allclose(made[2], length_one(C[2]), atol=1e-6)


def test_question_on_its_centroid_has_no_residual() -> None:
    made = steering_tables(C * 3, C, K, IDS)
    assert not made["steering_residual"].any()
    assert made["centroid_distances"].max() < 1e-6


def test_unknown_definition_is_refused() -> None:
    with pytest.raises(ConfigError, match="use standard or legacy"):
        steering_tables(Q, C, K, IDS, definition="new")
