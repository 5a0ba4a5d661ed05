"""Metrics of retrieval from ranks. Pure functions of arrays.

Q queries, C candidates. A query has relevant candidates; its rank is that of the best one, from 1.
A candidate as good as a relevant one counts as ranked before it: no metric gains from ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def ranks_of_relevant(
    scores_QC: NDArray[Any],  # noqa: N803 - shape suffix
    relevant_QC: NDArray[np.bool_],  # noqa: N803 - shape suffix
) -> list[NDArray[np.int64]]:
    """For every query the ranks of its relevant candidates, from 1, rising.

    >>> ranks_of_relevant(np.array([[0.9, 0.5, 0.7]]), np.array([[False, True, True]]))[0].tolist()
    [2, 3]
    """
    if scores_QC.shape != relevant_QC.shape:
        raise ConfigError(
            f"scores have the shape {list(scores_QC.shape)}, relevance {list(relevant_QC.shape)}"
        )
    ranks = []
    for scores, relevant in zip(scores_QC, relevant_QC, strict=True):
        # Among equal scores the irrelevant come first.
        order = np.lexsort((relevant, -scores))
        ranks.append(np.flatnonzero(relevant[order]) + 1)
    return ranks


def retrieval_metrics(
    ranks: Sequence[NDArray[np.int64]], cutoffs: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """MRR, recall@k and nDCG@k, as means over queries.

    With relevance 0 or 1: MRR is the mean of 1 / best rank, recall@k the share of a query's
    relevant candidates among the first k, nDCG@k = Σ 1 / log₂(rank + 1) over those, divided by the
    same sum for the best order (Järvelin, Kekäläinen 2002).

    Args:
        ranks: of every query's relevant candidates, at least one.
        cutoffs: the values of k.

    >>> made = retrieval_metrics([np.array([1]), np.array([2])], cutoffs=[1])
    >>> made["mrr"], made["recall@1"], made["ndcg@1"]
    (0.75, 0.5, 0.5)
    """
    if not len(ranks) or any(not len(each) for each in ranks):
        raise ConfigError("metrics need queries, each with at least one relevant candidate")
    metrics = {"mrr": float(np.mean([1 / each.min() for each in ranks]))}
    for k in cutoffs:
        if k < 1:
            raise ConfigError(f"cutoffs must be at least 1, got {k}")
        metrics[f"recall@{k}"] = float(np.mean([np.mean(each <= k) for each in ranks]))
        metrics[f"ndcg@{k}"] = float(np.mean([_ndcg(each, k) for each in ranks]))
    return metrics


def _ndcg(ranks: NDArray[np.int64], k: int) -> float:
    gained = float(np.sum(1 / np.log2(ranks[ranks <= k] + 1)))
    best = float(np.sum(1 / np.log2(np.arange(1, min(k, len(ranks)) + 1) + 1)))
    return gained / best
