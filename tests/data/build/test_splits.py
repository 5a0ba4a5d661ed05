"""The split: by question, groups whole, strata even, shares as asked."""

from __future__ import annotations

import numpy as np
import pytest

from midstep.core.errors import DatasetError
from midstep.data.build.distinct_texts import deduplicate
from midstep.data.build.read_table import Rows
from midstep.data.build.splits import UnionFind, check_split, question_groups, split_groups
from midstep.data.exact_search import unit_rows

RATIOS = {"train": 0.8, "val": 0.1, "test": 0.1}


def test_every_stratum_has_its_shares() -> None:
    chance = np.random.default_rng(0)
    strata = chance.integers(9, size=2000)
    made = split_groups(np.arange(2000), strata, RATIOS, seed=1)
    assert np.bincount(made).tolist() == [1600, 200, 200]
    for stratum in range(9):
        inside = np.bincount(made[strata == stratum], minlength=3)
        np.testing.assert_allclose(inside, inside.sum() * np.array([0.8, 0.1, 0.1]), atol=2)


def test_small_strata_share_the_rest_among_them() -> None:
    made = split_groups(np.arange(100), np.arange(100) // 3, RATIOS, seed=0)
    assert np.bincount(made).tolist() == [80, 10, 10]


def test_groups_stay_whole_and_shares_near() -> None:
    chance = np.random.default_rng(3)
    groups = chance.integers(300, size=1000)
    made = split_groups(groups, chance.integers(5, size=1000), RATIOS, seed=2)
    for group in np.unique(groups):
        assert len(np.unique(made[groups == group])) == 1
    np.testing.assert_allclose(np.bincount(made) / 1000, [0.8, 0.1, 0.1], atol=0.01)


def test_another_seed_splits_otherwise_and_the_same_alike() -> None:
    strata = np.zeros(200, dtype=np.int64)
    one, again, other = (split_groups(np.arange(200), strata, RATIOS, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_split_of_ratio_zero_gets_nothing() -> None:
    ratios = {"train": 0.9, "val": 0.1, "test": 0.0}
    made = split_groups(np.arange(50), np.zeros(50, dtype=np.int64), ratios, seed=0)
    assert np.bincount(made, minlength=3).tolist() == [45, 5, 0]
    check_split(made, np.arange(50), ratios)


def test_one_group_of_everything_is_told() -> None:
    groups = np.zeros(30, dtype=np.int64)
    made = split_groups(groups, np.zeros(30, dtype=np.int64), RATIOS, seed=0)
    with pytest.raises(DatasetError, match=r"val and test would be empty.*largest group has 30"):
        check_split(made, groups, RATIOS)


def slow_labels(count: int, edges: list[tuple[int, int]]) -> list[int]:
    labels = list(range(count))
    for _ in range(count):
        for one, other in edges:
            labels[one] = labels[other] = min(labels[one], labels[other])
    return labels


def test_groups_are_connected_parts() -> None:
    chance = np.random.default_rng(4)
    for _ in range(30):
        groups, edges = UnionFind(25), []
        for _ in range(4):
            pairs = chance.integers(25, size=(4, 2))
            groups.join(pairs[:, 0], pairs[:, 1])
            edges += [tuple(each) for each in pairs.tolist()]
        assert groups.labels().tolist() == slow_labels(25, edges)


def test_what_hangs_together_is_what_was_asked_for() -> None:
    # 0 and 1 share a source, 1 and 2 nearly say the same, 3 is alone; 4 has a near source of 3.
    texts = deduplicate(
        Rows(
            questions=["a", "b", "c", "d", "e"],
            sources=["s", "s", "t", "u", "v"],
            relevance=[1, 0, 1, 1, 1],
            keywords=[[]] * 5,
            splits=[""] * 5,
        )
    )
    questions = unit_rows(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0.01], [0, 0, 1], [1, 1, 1]]))
    sources = unit_rows(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.01, 1]]))
    found = {
        kept: question_groups(
            texts, questions, sources, together=kept, near_duplicate=0.99
        ).tolist()
        for kept in ("question", "source", "near_duplicate")
    }
    assert found == {
        "question": [0, 1, 2, 3, 4],
        "source": [0, 0, 2, 3, 4],
        "near_duplicate": [0, 0, 0, 3, 3],
    }
