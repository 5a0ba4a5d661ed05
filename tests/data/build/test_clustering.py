"""Clusters: of points that lie together, and of the training split alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from midstep.core.errors import DatasetError
from midstep.data.build import clustering
from midstep.data.build.clustering import (
    adjacent_clusters,
    fit_clusters,
    nearest_clusters,
    similar_threshold,
)
from midstep.data.build.distinct_texts import deduplicate
from midstep.data.build.pipeline import cluster_stage
from midstep.data.build.read_table import read_rows
from midstep.data.exact_search import unit_rows
from midstep.data.text.encoders import HashingEncoder
from tests.data.build.text_samples import build_config, topic_rows, write_csv


def test_points_that_lie_together_are_one_cluster() -> None:
    chance = np.random.default_rng(0)
    middle = unit_rows(chance.standard_normal((6, 12)))
    owner = chance.integers(6, size=600)
    points = unit_rows(middle[owner] + 0.05 * chance.standard_normal((600, 12)))
    centroids = fit_clusters(points, 6, seed=0)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-6)
    found = nearest_clusters(points, centroids)
    for each in range(6):
        assert len(np.unique(found[owner == each])) == 1
    assert len(np.unique(found)) == 6


def test_nearest_is_the_largest_cosine() -> None:
    chance = np.random.default_rng(1)
    points, centroids = (unit_rows(chance.standard_normal((n, 5))) for n in (80, 9))
    slow = [int(np.argmax([float(point @ centroid) for centroid in centroids])) for point in points]
    assert nearest_clusters(points, centroids).tolist() == slow


def test_more_clusters_than_points_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"3 clusters were requested.*2 distinct"):
        fit_clusters(np.array([[1.0, 0], [0, 1], [0, 1]]), 3, seed=0)


def test_no_cluster_is_left_empty_by_copies() -> None:
    points = unit_rows(np.repeat(np.eye(4), [50, 1, 1, 1], axis=0))
    centroids = fit_clusters(points, 4, seed=5)
    assert sorted(nearest_clusters(np.eye(4), centroids).tolist()) == [0, 1, 2, 3]


def test_neighbours_are_nearest_first_and_never_oneself() -> None:
    chance = np.random.default_rng(2)
    centroids = unit_rows(chance.standard_normal((10, 6)))
    found = adjacent_clusters(centroids, 3)
    for cluster, near in enumerate(found):
        others = [each for each in range(10) if each != cluster]
        others.sort(key=lambda each: -float(centroids[cluster] @ centroids[each]))
        assert near.tolist() == others[:3]
    assert adjacent_clusters(centroids[:2], 3).tolist() == [[1], [0]]
    assert adjacent_clusters(centroids[:1], 3).shape == (1, 0)


def test_threshold_is_the_quantile_of_all_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    questions, sources = (unit_rows(chance.standard_normal((n, 8))) for n in (60, 50))
    exact = float(np.quantile(questions.astype(np.float64) @ sources.T, 0.9))
    assert similar_threshold(questions, sources, 0.9, 0) == pytest.approx(exact, abs=1e-6)
    monkeypatch.setattr(clustering, "SAMPLED", 2000)
    assert similar_threshold(questions, sources, 0.9, 0) == pytest.approx(exact, abs=0.05)


def test_other_splits_change_no_centroid_and_no_threshold(tmp_path: Path) -> None:
    config = build_config(write_csv(tmp_path / "t.csv", topic_rows(120)), tmp_path / "out")
    texts = deduplicate(read_rows(config))
    encoder = HashingEncoder(16)
    vectors = {name: encoder.encode(getattr(texts, name)) for name in ("questions", "sources")}
    split = np.arange(120) % 3
    one = cluster_stage(config, texts, vectors, split)
    changed = {name: table.copy() for name, table in vectors.items()}
    for name, column in (("questions", 0), ("sources", 1)):
        elsewhere = texts.pair_index[split[texts.pair_index[:, 0]] != 0, column]
        changed[name][elsewhere] = np.random.default_rng(9).standard_normal((len(elsewhere), 16))
    other = cluster_stage(config, texts, changed, split)
    assert one["centroids"].tobytes() == other["centroids"].tobytes()
    assert one["threshold"] == other["threshold"]
    assert np.array_equal(one["adjacent"], other["adjacent"])
    # … and the training split does: the test above could fail.
    moved = {**vectors, "questions": np.roll(vectors["questions"], 1, axis=0)}
    assert cluster_stage(config, texts, moved, split)["threshold"] != one["threshold"]
    with pytest.raises(DatasetError, match="training split has no pair"):
        cluster_stage(config, replace(texts), vectors, np.ones(120, dtype=np.int64))
