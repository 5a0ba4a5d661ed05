"""Retrieval metrics from the ranks of relevant candidates. Pure functions of arrays.

Q queries, C candidates. Ranks count from 1. A candidate with the same score as a relevant one is
ranked before it, so that ties never improve a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require


def ranks_of_relevant(
    scores_QC: NDArray[Any], relevant_QC: NDArray[np.bool_]
) -> list[NDArray[np.int64]]:
    """For each query the ranks of its relevant candidates, from 1, sorted.

    >>> ranks_of_relevant(np.array([[0.9, 0.5, 0.7]]), np.array([[False, True, True]]))[0].tolist()
    [2, 3]
    """
    if scores_QC.shape != relevant_QC.shape:
        raise ConfigError(
            f"scores have the shape {list(scores_QC.shape)}, relevance {list(relevant_QC.shape)}"
        )
    # `lexsort` sorts by its last key first: by score, and of equal scores the irrelevant first.
    orders = np.lexsort((relevant_QC, -scores_QC), axis=1)
    return [np.flatnonzero(row) + 1 for row in np.take_along_axis(relevant_QC, orders, axis=1)]


def retrieval_metrics(
    ranks: Sequence[NDArray[np.int64]], cutoffs: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """MRR, recall@k and nDCG@k, as means over queries.

    With relevance 0 or 1: MRR is the mean of 1 / best rank. recall@k is the share of a query's
    relevant candidates among the first k. nDCG@k is Σ 1 / log₂(rank + 1) over those, divided by the
    same sum for the best order (Järvelin, Kekäläinen 2002).

    Args:
        ranks: for each query the ranks of its relevant candidates, at least one.
        cutoffs: the values of k.

    >>> metrics = retrieval_metrics([np.array([1]), np.array([2])], cutoffs=[1])
    >>> metrics["mrr"], metrics["recall@1"], metrics["ndcg@1"]
    (0.75, 0.5, 0.5)
    """
    if not len(ranks) or any(not len(each) for each in ranks):
        raise ConfigError("metrics need queries, each with at least one relevant candidate")
    require(*(at_least("cutoffs", k, 1) for k in cutoffs))
    metrics = {"mrr": float(np.mean([1 / each.min() for each in ranks]))}
    for k in cutoffs:
        metrics[f"recall@{k}"] = float(np.mean([np.mean(each <= k) for each in ranks]))
        metrics[f"ndcg@{k}"] = float(np.mean([_ndcg(each, k) for each in ranks]))
    return metrics


def _ndcg(ranks: NDArray[np.int64], k: int) -> float:
    gained = float(np.sum(1 / np.log2(ranks[ranks <= k] + 1)))
    best = float(np.sum(1 / np.log2(np.arange(1, min(k, len(ranks)) + 1) + 1)))
    return gained / best
