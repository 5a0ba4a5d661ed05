"""Exact search beside a slow, obvious twin."""

from __future__ import annotations

import numpy as np
import pytest

from midstep.core.errors import ConfigError
from midstep.data import exact_search
from midstep.data.exact_search import merge_hits, pairs_above, top_k
from midstep.data.ragged import Ragged


def slow_top_k(queries, rows, k, excluded=None, at_most=None):
    """Every score, sorted in Python."""
    found = []
    for number, query in enumerate(queries):
        banned = set() if excluded is None else set(excluded[number].tolist())
        scored = [(-float(query @ row), at) for at, row in enumerate(rows) if at not in banned]
        allowed = [each for each in scored if at_most is None or -each[0] <= at_most[number]]
        best = [at for _, at in sorted(allowed)[:k]]
        found.append(best + [-1] * (k - len(best)))
    return found


def whole_numbers(chance, *shape):
    """Sums of these are exact in any order, and ties are many."""
    return chance.integers(-2, 3, size=shape).astype(np.float32)


def test_equals_the_slow_twin_for_any_block_with_ties_and_exclusions(monkeypatch) -> None:
    chance = np.random.default_rng(0)
    for _ in range(150):
        count, rows, width, k = (int(chance.integers(1, top)) for top in (20, 200, 5, 9))
        queries, table = (
            whole_numbers(chance, count, width),
            whole_numbers(chance, rows, width),
        )
        excluded = Ragged.from_lists(
            [chance.integers(rows, size=chance.integers(5)).tolist() for _ in range(count)]
        )
        at_most = chance.integers(-2, 6, size=count).astype(np.float32)
        monkeypatch.setattr(exact_search, "BLOCK_QUERIES", int(chance.integers(1, 25)))
        monkeypatch.setattr(exact_search, "BLOCK_ROWS", int(chance.integers(1, 250)))
        scores, found = top_k(queries, table, k, excluded=excluded, at_most=at_most)
        assert found.tolist() == slow_top_k(queries, table, k, excluded, at_most)
        there = found >= 0
        products = np.einsum("qd,qkd->qk", queries, table[found])
        assert np.array_equal(scores[there], products[there])
        assert np.isneginf(scores[~there]).all()


def test_real_vectors_miss_nothing(monkeypatch) -> None:
    chance = np.random.default_rng(1)
    queries = chance.standard_normal((70, 24)).astype(np.float32)
    table = chance.standard_normal((3000, 24)).astype(np.float32)
    monkeypatch.setattr(exact_search, "BLOCK_ROWS", 700)
    _, found = top_k(queries, table, 12)
    exact = np.sort((queries.astype(np.float64) @ table.T.astype(np.float64)), axis=1)
    mine = np.einsum("qd,qkd->qk", queries.astype(np.float64), table[found])
    np.testing.assert_allclose(mine, exact[:, ::-1][:, :12], atol=1e-5)


def test_empty_rows_give_nothing() -> None:
    scores, found = top_k(np.ones((2, 3)), np.zeros((0, 3)), 2)
    assert found.tolist() == [[-1, -1]] * 2
    assert np.isneginf(scores).all()


def test_half_precision_is_widened() -> None:
    table = np.eye(4, dtype=np.float16)
    assert top_k(table, table, 1)[1][:, 0].tolist() == [0, 1, 2, 3]


def test_above_gives_every_pair_once(monkeypatch) -> None:
    chance = np.random.default_rng(2)
    left, right = whole_numbers(chance, 30, 3), whole_numbers(chance, 90, 3)
    for block in (1, 7, 500):
        monkeypatch.setattr(exact_search, "BLOCK_ROWS", block)
        got = [
            (int(q), int(r), float(s))
            for queries, rows, scores in pairs_above(left, right, 4.0)
            for q, r, s in zip(queries, rows, scores, strict=True)
        ]
        wanted = [
            (q, r, float(left[q] @ right[r]))
            for q in range(30)
            for r in range(90)
            if left[q] @ right[r] >= 4
        ]
        assert sorted(got) == wanted


def test_merged_keeps_the_lower_row_of_equal_scores() -> None:
    one = np.array([[2.0, 1.0]], np.float32), np.array([[7, 3]])
    two = np.array([[2.0, 1.0]], np.float32), np.array([[9, 1]])
    assert merge_hits([one, two], 3)[1].tolist() == [[7, 9, 1]]


def test_different_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="queries have the width 3, rows 2"):
        top_k(np.ones((1, 3)), np.ones((1, 2)), 1)
