"""Mining of hard negatives: sources that look like answers but are not, in four tiers.

Of tiers 1 to 3 the hardest sources are taken, of tier 4 random ones; `negative_tiers` defines the
tiers. The search is exact. It multiplies blocks, and never holds the scores of all pairs with all
sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from midstep.core.random_streams import RandomStream
from midstep.data.build.build_config import TIERS
from midstep.data.build.negative_tiers import (
    MinedNegatives,
    MiningInputs,
    fill_quotas,
    largest_scores,
)
from midstep.data.exact_search import Hits, merge_hits, top_k
from midstep.data.ragged import Ragged

Ids = NDArray[np.int64]
Candidates = dict[int, Ids]
"""The candidates of a block of pairs by tier: source ids [B, N], −1 after the last."""

BLOCK_PAIRS = 512
"""Pairs of one cluster that are mined together."""
DRAWS = 16
"""Random sources drawn for tier 4 of a pair before all sources are considered."""


def mine_hard_negatives(
    inputs: MiningInputs,
    pairs: Ids,
    pool: Ids,
    *,
    quotas: Mapping[int, int],
    margin: float,
    seed: int,
    advance: Callable[[int], None] | None = None,
) -> MinedNegatives:
    """Find negatives for the pairs of one split among the sources of that split.

    Args:
        inputs: vectors, clusters, positives.
        pairs: the pairs of the split.
        pool: the sources of the split.
        quotas: negatives wanted of each tier.
        margin: share of the positive's score that a negative may reach.
        seed: of the random ones; the draw of a pair does not depend on the other pairs.
        advance: called with the number of pairs done.
    """
    sources = ClusteredSources(inputs, pool)
    at_most = largest_scores(inputs, pairs, margin)
    mined = MinedNegatives.empty(len(pairs), quotas)
    done = 0
    for cluster, rows in _by_cluster(inputs.pair_cluster[pairs]):
        for start in range(0, len(rows), BLOCK_PAIRS):
            part = rows[start : start + BLOCK_PAIRS]
            candidates = sources.search(pairs[part], cluster, at_most[part], sum(quotas.values()))
            # Tier 4 also draws what tiers 1 to 3 lack, so that it can fill them up.
            need = quotas[4] + _missing(candidates, quotas)
            sources.draw(candidates, pairs[part], cluster, at_most[part], need, seed)
            mined.set_rows(part, fill_quotas(candidates, quotas))
            done += len(part)
            if advance is not None:
                advance(done)
    return mined


def _by_cluster(clusters: Ids) -> Iterator[tuple[int, Ids]]:
    order = np.argsort(clusters, kind="stable")
    cuts = np.flatnonzero(np.diff(clusters[order])) + 1
    for rows in np.split(order, cuts):
        if len(rows):
            yield int(clusters[rows[0]]), rows


def _missing(candidates: Candidates, quotas: Mapping[int, int]) -> Ids:
    """How many negatives tiers 1 to 3 lack, for each pair."""
    counts = {tier: (candidates[tier] >= 0).sum(axis=1) for tier in TIERS[:-1]}
    lacking = [np.maximum(quotas[tier] - count, 0) for tier, count in counts.items()]
    return np.asarray(np.sum(lacking, axis=0), dtype=np.int64)


class ClusteredSources:
    """The sources of a split, sorted by cluster so that a cluster is one run of rows.

    "Row" means a row of this sorted table; -1 is a source of another split.
    """

    def __init__(self, inputs: MiningInputs, pool: Ids) -> None:
        self.inputs = inputs
        order = np.argsort(inputs.source_cluster[pool], kind="stable")
        self.ids = pool[order]
        self.vectors = np.ascontiguousarray(inputs.sources[self.ids], dtype=np.float32)
        clusters = np.arange(len(inputs.adjacent) + 1)
        self.bounds = np.searchsorted(inputs.source_cluster[self.ids], clusters)
        self.row_of_source = np.full(len(inputs.source_cluster), -1, dtype=np.int64)
        self.row_of_source[self.ids] = np.arange(len(self.ids))

    def search(
        self, pairs: Ids, cluster: int, at_most: NDArray[np.float32], count: int
    ) -> Candidates:
        """Find the hardest sources of tiers 1, 2 and 3 for pairs of one cluster."""
        queries = self.inputs.questions[self.inputs.pair_index[pairs, 0]]
        excluded = self._positives(pairs)
        candidates: Candidates = {}
        for tier, runs in zip((1, 2, 3), self._runs(cluster), strict=True):
            parts: list[Hits] = []
            for start, stop in runs:
                shifted = Ragged(excluded.offsets, excluded.values - start)
                vectors = self.vectors[start:stop]
                scores, rows = top_k(queries, vectors, count, excluded=shifted, at_most=at_most)
                parts.append((scores, np.where(rows >= 0, rows + start, -1)))
            if not parts:
                candidates[tier] = np.full((len(pairs), count), -1, dtype=np.int64)
                continue
            scores, rows = merge_hits(parts, count)
            is_allowed = rows >= 0
            if tier == 3:
                is_allowed &= scores >= np.float32(self.inputs.threshold)
            candidates[tier] = np.where(is_allowed, self.ids[rows], -1)
        return candidates

    def _runs(self, cluster: int) -> Iterator[list[tuple[int, int]]]:
        """Runs of rows with the cluster itself, with its adjacent clusters, and with all others."""
        adjacent = self.inputs.adjacent[cluster]
        for clusters in ([cluster], adjacent):
            runs = [self._run(each) for each in clusters]
            yield [(start, stop) for start, stop in runs if stop > start]
        near = np.sort(np.append(adjacent, cluster))
        edges = [0, *np.ravel([self._run(each) for each in near]).tolist(), len(self.ids)]
        gaps = list(pairwise(edges))[::2]  # every second pair of edges lies between near clusters
        yield [(start, stop) for start, stop in gaps if stop > start]

    def _run(self, cluster: int) -> tuple[int, int]:
        return int(self.bounds[cluster]), int(self.bounds[cluster + 1])

    def _positives(self, pairs: Ids) -> Ragged:
        """For each pair the rows of all sources that answer its question."""
        positives = self.inputs.positives
        question = self.inputs.pair_index[pairs, 0]
        starts, counts = positives.offsets[question], np.diff(positives.offsets)[question]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        return Ragged(offsets, self.row_of_source[positives.values[at]])

    def draw(
        self,
        candidates: Candidates,
        pairs: Ids,
        cluster: int,
        at_most: NDArray[np.float32],
        need: Ids,
        seed: int,
    ) -> None:
        """Add random sources of tier 4: as many as each pair needs, or all there are."""
        *_, runs = self._runs(cluster)
        width = candidates[1].shape[1]
        ids = np.full((len(pairs), width), -1, dtype=np.int64)
        candidates[4] = ids
        if not runs or not need.any():
            return
        distant = np.concatenate([np.arange(start, stop) for start, stop in runs])
        # A few draws are enough for most pairs, and cost far less than scoring all sources.
        stream = RandomStream(seed, "distant negatives")
        at = pairs[:, None] * DRAWS + np.arange(DRAWS)
        numbers = (stream.bits_at(at.ravel()) >> np.uint64(1)) % np.uint64(len(distant))
        rows = distant[numbers.astype(np.int64)].reshape(at.shape)
        is_allowed = self._is_tier_4(pairs, rows, at_most)
        is_allowed &= _is_first(rows)
        # Another order of summation may put a source at the threshold on its other side.
        is_allowed &= ~(self.ids[rows][:, :, None] == candidates[3][:, None, :]).any(axis=2)
        order = np.argsort(~is_allowed, axis=1, kind="stable")[:, :width]
        has_enough = is_allowed.sum(axis=1) >= need
        chosen = self.ids[np.take_along_axis(rows, order, axis=1)]
        is_needed = np.arange(order.shape[1]) < need[:, None]
        ids[:, : order.shape[1]] = np.where(is_needed & has_enough[:, None], chosen, -1)
        short = np.flatnonzero(~has_enough)
        self._draw_from_all(candidates, short, pairs, distant, at_most, need, stream)

    def _is_tier_4(self, pairs: Ids, rows: Ids, at_most: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which of some rows are of tier 4 for each pair, and allowed as negatives."""
        question = self.inputs.pair_index[pairs, 0]
        score = np.einsum("pd,pnd->pn", self.inputs.questions[question], self.vectors[rows])
        is_allowed = (score < np.float32(self.inputs.threshold)) & (score <= at_most[:, None])
        positives = self._positives(pairs)
        owner = np.repeat(np.arange(len(pairs)), np.diff(positives.offsets))
        # One number for a pair and a row; a positive of another split, −1, equals no row.
        stride = len(self.ids) + 1
        is_positive = np.isin(
            rows + np.arange(len(pairs))[:, None] * stride, owner * stride + positives.values
        )
        return np.asarray(is_allowed & ~is_positive)

    def _draw_from_all(
        self,
        candidates: Candidates,
        short: Ids,
        pairs: Ids,
        distant: Ids,
        at_most: NDArray[np.float32],
        need: Ids,
        stream: RandomStream,
    ) -> None:
        """For pairs that the few draws left short: score all distant sources, then draw."""
        if not len(short):
            return
        ids, similar = candidates[4], candidates[3]
        question = self.inputs.pair_index[pairs[short], 0]
        score = self.inputs.questions[question] @ self.vectors[distant].T
        is_allowed = score < np.float32(self.inputs.threshold)
        is_allowed &= score <= at_most[short][:, None]
        for row, pair in enumerate(short):
            positives = self._positives(pairs[pair : pair + 1]).values
            free = distant[is_allowed[row]]
            free = free[~np.isin(free, positives) & ~np.isin(self.ids[free], similar[pair])]
            keys = stream.child(str(int(pairs[pair]))).bits_at(free)
            chosen = free[np.argsort(keys, kind="stable")[: int(need[pair])]]
            ids[pair, : len(chosen)] = self.ids[chosen]


def _is_first(values: Ids) -> NDArray[np.bool_]:
    """True where a value has not come before in its row."""
    equal = values[:, :, None] == values[:, None, :]
    before = np.tril(np.ones((values.shape[1], values.shape[1]), dtype=bool), -1)
    return np.asarray(~(equal & before).any(axis=2))
