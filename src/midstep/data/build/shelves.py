"""The sources of one split on shelves, one a cluster: searched exactly, drawn from at random."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from midstep.core.streams import RandomStream
from midstep.data.build.search import Found, merged, top_k
from midstep.data.build.tiers import Field
from midstep.data.embedding.draws import bits_at
from midstep.data.embedding.layout import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["Candidates", "Shelves"]

DRAWS = 16
"""Random sources looked at for tier 4 before all of them are."""


class Candidates:
    """Per tier the sources found for a block of pairs: ids [B, N], −1 behind the last."""

    def __init__(self) -> None:
        self.ids: dict[int, Ids] = {}

    def counts(self, tier: int) -> Ids:
        """How many there are of a tier, for each pair."""
        return np.asarray((self.ids[tier] >= 0).sum(axis=1), dtype=np.int64)


class Shelves:
    """The pool of a split sorted by cluster, so that a cluster is one run of rows."""

    def __init__(self, field: Field, pool: Ids) -> None:
        self.field = field
        order = np.argsort(field.source_cluster[pool], kind="stable")
        self.ids = pool[order]
        self.vectors = np.ascontiguousarray(field.sources[self.ids], dtype=np.float32)
        self.bounds = np.searchsorted(field.source_cluster[self.ids], np.arange(field.clusters + 1))
        self.place = np.full(len(field.source_cluster), -1, dtype=np.int64)
        self.place[self.ids] = np.arange(len(self.ids))

    def search(
        self, pairs: Ids, cluster: int, at_most: NDArray[np.float32], count: int
    ) -> Candidates:
        """The hardest of tiers 1, 2, 3 for pairs of one cluster."""
        queries = self.field.questions[self.field.pair_index[pairs, 0]]
        excluded = self._positives(pairs)
        found = Candidates()
        for tier, runs in zip((1, 2, 3), self._runs(cluster), strict=True):
            parts: list[Found] = [
                _shifted(
                    top_k(
                        queries,
                        self.vectors[start:stop],
                        count,
                        excluded=Ragged(excluded.offsets, excluded.values - start),
                        at_most=at_most,
                    ),
                    start,
                )
                for start, stop in runs
            ]
            if not parts:
                found.ids[tier] = np.full((len(pairs), count), -1, dtype=np.int64)
                continue
            score, place = merged(parts, count)
            allowed = place >= 0
            if tier == 3:
                allowed &= score >= np.float32(self.field.threshold)
            found.ids[tier] = np.where(allowed, self.ids[place], -1)
        return found

    def _runs(self, cluster: int) -> Iterator[list[tuple[int, int]]]:
        """Runs of rows that hold the cluster, its neighbours, and all others."""
        near = np.sort(np.append(self.field.adjacent[cluster], cluster))
        for clusters in ([cluster], self.field.adjacent[cluster]):
            yield [self._run(each) for each in clusters if self._size(each)]
        edges = [0, *np.ravel([self._run(each) for each in near]).tolist(), len(self.ids)]
        gaps = list(pairwise(edges))[::2]
        yield [(start, stop) for start, stop in gaps if stop > start]

    def _run(self, cluster: int) -> tuple[int, int]:
        return int(self.bounds[cluster]), int(self.bounds[cluster + 1])

    def _size(self, cluster: int) -> int:
        start, stop = self._run(cluster)
        return stop - start

    def _positives(self, pairs: Ids) -> Ragged:
        """For each pair the rows of its question's positives; −1 for those of other pools."""
        positives = self.field.positives
        question = self.field.pair_index[pairs, 0]
        starts, counts = positives.offsets[question], np.diff(positives.offsets)[question]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        return Ragged(offsets, self.place[positives.values[at]])

    def draw(
        self,
        found: Candidates,
        pairs: Ids,
        cluster: int,
        at_most: NDArray[np.float32],
        need: Ids,
        seed: int,
    ) -> None:
        """Random sources of tier 4, as many as each pair needs, or all there are."""
        *_, runs = self._runs(cluster)
        width = found.ids[1].shape[1]
        ids = np.full((len(pairs), width), -1, dtype=np.int64)
        found.ids[4] = ids
        if not runs or not need.any():
            return
        rest = np.concatenate([np.arange(start, stop) for start, stop in runs])
        stream = RandomStream(seed, "distant negatives")
        at = pairs[:, None] * DRAWS + np.arange(DRAWS)
        drawn = (bits_at(stream, at.ravel()) >> np.uint64(1)) % np.uint64(len(rest))
        place = rest[drawn.astype(np.int64)].reshape(at.shape)
        allowed = self._distant(pairs, place, at_most)
        allowed &= _first_of_equal(place)
        # Another order of summation may put a source at the threshold on its other side.
        allowed &= ~(self.ids[place][:, :, None] == found.ids[3][:, None, :]).any(axis=2)
        order = np.argsort(~allowed, axis=1, kind="stable")[:, :width]
        enough = allowed.sum(axis=1) >= need
        chosen = self.ids[np.take_along_axis(place, order, axis=1)]
        keep = np.arange(order.shape[1]) < need[:, None]
        ids[:, : order.shape[1]] = np.where(keep & enough[:, None], chosen, -1)
        late = np.flatnonzero(~enough)
        self._draw_from_all(found, late, pairs, rest, at_most, need, stream)

    def _distant(self, pairs: Ids, place: Ids, at_most: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which of some rows are of tier 4 for each pair, and allowed."""
        question = self.field.pair_index[pairs, 0]
        score = np.einsum("pd,pnd->pn", self.field.questions[question], self.vectors[place])
        allowed = (score < np.float32(self.field.threshold)) & (score <= at_most[:, None])
        positives = self._positives(pairs)
        owner = np.repeat(np.arange(len(pairs)), np.diff(positives.offsets))
        # One number for a pair and a row; a positive of another pool, −1, meets no row.
        stride = len(self.ids) + 1
        taken = np.isin(
            place + np.arange(len(pairs))[:, None] * stride, owner * stride + positives.values
        )
        return np.asarray(allowed & ~taken)

    def _draw_from_all(
        self,
        found: Candidates,
        late: Ids,
        pairs: Ids,
        rest: Ids,
        at_most: NDArray[np.float32],
        need: Ids,
        stream: RandomStream,
    ) -> None:
        """For pairs with few distant sources: look at all, and draw from those allowed."""
        if not len(late):
            return
        ids, similar = found.ids[4], found.ids[3]
        question = self.field.pair_index[pairs[late], 0]
        score = self.field.questions[question] @ self.vectors[rest].T
        allowed = (score < np.float32(self.field.threshold)) & (score <= at_most[late][:, None])
        for row, pair in enumerate(late):
            own = self._positives(pairs[pair : pair + 1]).values
            free = rest[allowed[row]]
            free = free[~np.isin(free, own) & ~np.isin(self.ids[free], similar[pair])]
            keys = bits_at(stream.child(str(int(pairs[pair]))), free)
            chosen = free[np.argsort(keys, kind="stable")[: int(need[pair])]]
            ids[pair, : len(chosen)] = self.ids[chosen]


def _shifted(found: Found, start: int) -> Found:
    score, row = found
    return score, np.where(row >= 0, row + start, -1)


def _first_of_equal(values: Ids) -> NDArray[np.bool_]:
    """True where a value of a row has not come before in it."""
    same = values[:, :, None] == values[:, None, :]
    before = np.tril(np.ones((values.shape[1], values.shape[1]), dtype=bool), -1)
    return np.asarray(~(same & before).any(axis=2))
