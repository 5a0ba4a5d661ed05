"""Hard negatives: the sources that look like answers and are none, in four honest tiers.

Of tiers 1 to 3 the hardest are taken, of tier 4 random ones; `tiers` says what they are. The search
is exact: blocks of products, never the matrix of all pairs and sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from midstep.data.build.config import TIERS
from midstep.data.build.filling import Filled, fill
from midstep.data.build.shelves import Candidates, Shelves
from midstep.data.build.tiers import Field, largest_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["mine"]

BLOCK_PAIRS = 512


def mine(
    field: Field,
    pairs: Ids,
    pool: Ids,
    *,
    quotas: Mapping[int, int],
    margin: float,
    seed: int,
    advance: Callable[[int], None] | None = None,
) -> Filled:
    """Negatives for the pairs of one split, out of its own pool of sources.

    Args:
        field: vectors, clusters, positives.
        pairs: of the split.
        pool: sources of the split.
        quotas: negatives wanted of each tier.
        margin: share of the positive's score that a negative's may reach.
        seed: of the random ones; a pair's draw does not depend on the other pairs.
        advance: told how many pairs are done.
    """
    shelves = Shelves(field, pool)
    at_most = largest_scores(field, pairs, margin)
    made = Filled.empty(len(pairs), quotas)
    done = 0
    for cluster, rows in _by_cluster(field.pair_cluster[pairs]):
        for start in range(0, len(rows), BLOCK_PAIRS):
            part = rows[start : start + BLOCK_PAIRS]
            found = shelves.search(pairs[part], int(cluster), at_most[part], sum(quotas.values()))
            short = _short(found, quotas)
            shelves.draw(found, pairs[part], int(cluster), at_most[part], quotas[4] + short, seed)
            made.put(part, fill(found.ids, quotas))
            done += len(part)
            if advance is not None:
                advance(done)
    return made


def _short(found: Candidates, quotas: Mapping[int, int]) -> Ids:
    """How many negatives tiers 1 to 3 lack, for each pair."""
    lacking = [np.maximum(quotas[tier] - found.counts(tier), 0) for tier in TIERS[:-1]]
    return np.asarray(np.sum(lacking, axis=0), dtype=np.int64)


def _by_cluster(clusters: Ids) -> Iterator[tuple[int, Ids]]:
    order = np.argsort(clusters, kind="stable")
    cuts = np.flatnonzero(np.diff(clusters[order])) + 1
    for rows in np.split(order, cuts):
        if len(rows):
            yield int(clusters[rows[0]]), rows
