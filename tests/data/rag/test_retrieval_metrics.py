"""Metrics of retrieval against slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from midstep.core.errors import ConfigError
from midstep.data import ranks_of_relevant, retrieval_metrics

CHANCE = np.random.default_rng(0)
SCORES = CHANCE.standard_normal((8, 20)).round(1)  # rounded: some are equal
RELEVANT = CHANCE.random((8, 20)) < 0.2
RELEVANT[:, 3] = True


def slow_rank(scores: list[float], relevant: list[bool], at: int) -> int:
    """One more than what is better, counting equal wrong ones as better."""
    better = sum(s > scores[at] for s in scores)
    equal_wrong = sum(s == scores[at] and not r for s, r in zip(scores, relevant, strict=True))
    equal_right = sum(
        s == scores[at] and r and other < at
        for other, (s, r) in enumerate(zip(scores, relevant, strict=True))
    )
    return 1 + better + equal_wrong + equal_right


def slow_metrics(rows: list[list[int]], k: int) -> tuple[float, float, float]:
    mrr = recall = ndcg = 0.0
    for ranks in rows:
        mrr += 1 / min(ranks)
        recall += sum(rank <= k for rank in ranks) / len(ranks)
        gain = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= k)
        best = sum(1 / math.log2(place + 2) for place in range(min(k, len(ranks))))
        ndcg += gain / best
    return mrr / len(rows), recall / len(rows), ndcg / len(rows)


def test_ranks_equal_the_slow_count() -> None:
    made = ranks_of_relevant(SCORES, RELEVANT)
    for row in range(8):
        scores, relevant = SCORES[row].tolist(), RELEVANT[row].tolist()
        expected = [slow_rank(scores, relevant, at) for at in range(20) if relevant[at]]
        assert made[row].tolist() == sorted(expected)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_metrics_equal_the_formulas(k: int) -> None:
    ranks = ranks_of_relevant(SCORES, RELEVANT)
    made = retrieval_metrics(ranks, cutoffs=[k])
    expected = slow_metrics([each.tolist() for each in ranks], k)
    assert (made["mrr"], made[f"recall@{k}"], made[f"ndcg@{k}"]) == pytest.approx(expected)


def test_scores_that_are_all_equal_gain_nothing() -> None:
    ranks = ranks_of_relevant(np.zeros((1, 5)), np.array([[True, False, False, False, False]]))
    assert retrieval_metrics(ranks, cutoffs=[4])["recall@4"] == 0


@pytest.mark.parametrize("ranks", [[], [np.array([], dtype=int)]])
def test_nothing_to_measure_is_refused(ranks) -> None:
    with pytest.raises(ConfigError, match="at least one relevant"):
        retrieval_metrics(ranks)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape \[1, 2\], relevance \[2, 2\]"):
        ranks_of_relevant(np.zeros((1, 2)), np.zeros((2, 2), bool))
