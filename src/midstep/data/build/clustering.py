"""Clusters of pairs: spherical k-means, nearest and adjacent clusters, similarity threshold.

N points, C clusters, D numbers in a vector, Q questions, S sources. All vectors are unit vectors
and are compared by cosine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.random_streams import RandomStream
from midstep.data.exact_search import top_k, unit_rows

Vectors = NDArray[np.float32]

ROUNDS = 50
"""Rounds of k-means at most; it stops earlier when no point changes its cluster."""
SAMPLED = 200_000
"""Pairs of a question and a source from which the threshold is taken."""
FITTED = 65_536
"""Points used to fit the centroids at most; more change them by less than their noise."""


def cluster_count(pairs: int) -> int:
    """The default number of clusters: the square root of half the pairs, 2 to 256.

    >>> [cluster_count(pairs) for pairs in (1, 100, 10_000, 10**6)]
    [1, 7, 71, 256]
    """
    return min(pairs, max(2, min(256, round(math.sqrt(pairs / 2)))))


def fit_clusters(points_ND: NDArray[Any], count: int, seed: int) -> Vectors:
    """Centroids by spherical k-means (Dhillon and Modha 2001), started by k-means++: [count, D].

    >>> points = unit_rows(np.array([[1, 0.1], [1, 0], [0, 1], [0.1, 1]]))
    >>> np.abs(fit_clusters(points, 2, seed=0) @ [1, -1]).round(1).tolist()
    [0.9, 0.9]
    """
    distinct = len(np.unique(points_ND, axis=0)) if len(points_ND) <= 4 * count else len(points_ND)
    if distinct < count:
        raise DatasetError(
            f"{count} clusters were requested, but the training split has {distinct} distinct "
            "pairs; request fewer (n_clusters, --clusters), or leave the number out"
        )
    points = unit_rows(_spread(points_ND, FITTED))
    centroids = _first_centroids(points, count, seed)
    labels = np.full(len(points), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        score, clusters = top_k(points, centroids, 1)
        if np.array_equal(clusters[:, 0], labels):
            break
        labels = clusters[:, 0]
        centroids = _means(points, labels, score[:, 0], count)
    return centroids


def _spread(points_ND: NDArray[Any], most: int) -> NDArray[Any]:
    if len(points_ND) <= most:
        return points_ND
    return points_ND[np.linspace(0, len(points_ND) - 1, most).astype(np.int64)]


def _first_centroids(points_ND: Vectors, count: int, seed: int) -> Vectors:
    """Random points that are far from each other: k-means++ (Arthur and Vassilvitskii 2007)."""
    stream = RandomStream(seed, "clusters")
    chosen = [stream.integer(len(points_ND), at=0)]
    distance = np.full(len(points_ND), np.inf)
    for number in range(1, count):
        near = 1.0 - (points_ND @ points_ND[chosen[-1]]).astype(np.float64)
        distance = np.minimum(distance, np.maximum(near, 0.0))
        distance[chosen] = 0.0
        total = np.cumsum(distance)
        if total[-1] > 0:
            index = int(np.searchsorted(total, stream.uniform(number) * total[-1], side="right"))
        else:  # all other points equal a chosen one: take any that is not chosen yet
            index = int(np.setdiff1d(np.arange(len(points_ND)), chosen)[0])
        chosen.append(min(index, len(points_ND) - 1))
    return points_ND[chosen].copy()


def _means(
    points_ND: Vectors, labels: NDArray[np.int64], score: NDArray[np.float32], count: int
) -> Vectors:
    """The mean direction of each cluster; an empty one restarts at the point that fits worst."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=count)
    filled = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
    # Sums over sorted runs, not by threads: the centroids must not depend on the thread count.
    sums = np.zeros((count, points_ND.shape[1]), dtype=np.float64)
    sums[filled] = np.add.reduceat(points_ND[order].astype(np.float64), starts, axis=0)
    worst = iter(np.argsort(score, kind="stable"))
    for cluster in np.flatnonzero(sizes == 0):
        sums[cluster] = points_ND[next(worst)]
    return unit_rows(sums)


def nearest_clusters(points_ND: NDArray[Any], centroids_CD: NDArray[Any]) -> NDArray[np.int64]:
    """The nearest cluster of each point; of equally near ones the lowest."""
    return top_k(points_ND, centroids_CD, 1)[1][:, 0]


def adjacent_clusters(centroids_CD: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The `count` nearest other clusters of each cluster, nearest first: [C, ≤ count].

    >>> adjacent_clusters(unit_rows(np.array([[1, 0], [1, 0.2], [0, 1]])), 1).tolist()
    [[1], [0], [1]]
    """
    clusters = len(centroids_CD)
    count = min(count, clusters - 1)
    if count < 1:
        return np.zeros((clusters, 0), dtype=np.int64)
    cosine = np.asarray(centroids_CD, dtype=np.float64) @ np.asarray(centroids_CD).T
    np.fill_diagonal(cosine, -np.inf)
    return np.argsort(-cosine, axis=1, kind="stable")[:, :count].astype(np.int64)


def similar_threshold(
    questions_QD: NDArray[Any], sources_SD: NDArray[Any], quantile: float, seed: int
) -> float:
    """A quantile of the cosine between questions and sources, over a sample of their pairs."""
    total = len(questions_QD) * len(sources_SD)
    at = np.arange(min(total, SAMPLED), dtype=np.int64)
    if total > SAMPLED:
        drawn = RandomStream(seed, "threshold").bits_at(at) >> np.uint64(1)
        at = (drawn % np.uint64(total)).astype(np.int64)
    score = np.concatenate(
        [
            np.einsum(
                "nd,nd->n",
                questions_QD[part // len(sources_SD)],
                sources_SD[part % len(sources_SD)],
                dtype=np.float64,
            )
            for part in np.array_split(at, max(1, len(at) // 8192))
        ]
    )
    return float(np.quantile(score, quantile))
