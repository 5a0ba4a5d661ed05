"""Split questions into train, val and test: groups stay together, strata keep their shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.random_streams import RandomStream
from midstep.data.build.build_config import KeptTogether
from midstep.data.build.distinct_texts import DistinctTexts
from midstep.data.exact_search import BLOCK_QUERIES, pairs_above
from midstep.data.steering.storage.layout import SPLITS


def split_groups(
    groups: NDArray[np.int64],
    strata: NDArray[np.int64],
    ratios: Mapping[str, float],
    seed: int,
) -> NDArray[np.int64]:
    """The split of each question: 0 train, 1 val, 2 test. A group is never divided.

    Stratum after stratum, each group goes to the split that is farthest below its share of all
    questions so far. Large groups come first, so that small ones even out the shares. Among groups
    of one size the order is random.

    Args:
        groups: the group of each question.
        strata: the stratum of each question; a group has the one that most of its questions have.
        ratios: shares of train, val, test.
        seed: of the order of groups.

    >>> ratios = {"train": 0.8, "val": 0.1, "test": 0.1}
    >>> split = split_groups(np.arange(40), np.arange(40) % 2, ratios, seed=0)
    >>> np.bincount(split).tolist(), np.bincount(split[::2]).tolist()
    ([32, 4, 4], [16, 2, 2])
    """
    labels, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    stratum = _majority(member, strata, len(labels))
    chance = RandomStream(seed, "split").bits_at(labels)
    order = np.lexsort((chance, -sizes, stratum))
    share = np.array([ratios[name] for name in SPLITS])
    taken = np.zeros(len(SPLITS))
    owner = np.zeros(len(labels), dtype=np.int64)
    seen = 0
    for each in np.unique(stratum):
        inside = order[stratum[order] == each]
        seen += int(sizes[inside].sum())
        for group in inside:
            missing = np.where(share > 0, share * seen - taken, -np.inf)
            owner[group] = int(np.argmax(missing))
            taken[owner[group]] += sizes[group]
    return owner[member]


def _majority(
    member: NDArray[np.int64], strata: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """The stratum of most questions of each group; of equally frequent ones the lowest."""
    width = int(strata.max()) + 1
    pairs, counts = np.unique(member * width + strata, return_counts=True)
    order = np.lexsort((pairs % width, -counts, pairs // width))
    first = np.searchsorted((pairs // width)[order], np.arange(count))
    return np.asarray((pairs % width)[order][first], dtype=np.int64)


def check_split(
    split: NDArray[np.int64], groups: NDArray[np.int64], ratios: Mapping[str, float]
) -> None:
    """Raise a `DatasetError` if a split that should have questions has none."""
    empty = [
        name
        for number, name in enumerate(SPLITS)
        if ratios[name] > 0 and not np.any(split == number)
    ]
    if not empty:
        return
    largest = int(np.bincount(np.unique(groups, return_inverse=True)[1]).max())
    raise DatasetError(
        f"{' and '.join(empty)} would be empty: {len(split)} questions, of which the largest group "
        f"has {largest}. A group shares a source or has near duplicates and is kept together; keep "
        "less together (keep_together, --keep-together question), raise near_duplicate "
        "(--near-duplicate), or set the ratio of that split to 0 (ratios, --ratios)"
    )


class UnionFind:
    """Numbers that are joined into groups; a group is known by its lowest number.

    >>> groups = UnionFind(4)
    >>> groups.join(np.array([3]), np.array([1]))
    >>> groups.labels().tolist()
    [0, 1, 2, 1]
    """

    def __init__(self, count: int) -> None:
        self._parent = np.arange(count, dtype=np.int64)

    def join(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
        """Join left[i] with right[i], for every i."""
        labels = self.labels()
        edges = np.unique(np.stack([labels[left], labels[right]], axis=1), axis=0)
        for one, other in edges[edges[:, 0] != edges[:, 1]].tolist():
            low, high = sorted((self._root(one), self._root(other)))
            self._parent[high] = low

    def _root(self, number: int) -> int:
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = int(parent[number])
        return number

    def labels(self) -> NDArray[np.int64]:
        """The group of each number."""
        while True:
            grandparent = self._parent[self._parent]
            if np.array_equal(grandparent, self._parent):
                return self._parent.copy()
            self._parent = grandparent


def question_groups(
    texts: DistinctTexts,
    questions_QD: NDArray[Any],
    sources_SD: NDArray[Any],
    *,
    together: KeptTogether,
    near_duplicate: float,
    advance: Callable[[int, int], None] | None = None,
) -> NDArray[np.int64]:
    """The group of each question: questions of one group must stay in one split.

    Args:
        texts: questions, sources and pairs.
        questions_QD: unit vectors.
        sources_SD: unit vectors.
        together: see `BuildConfig.keep_together`.
        near_duplicate: cosine from which two texts are nearly the same.
        advance: called with how many texts have been compared, of how many.
    """
    count = len(texts.questions)
    if together == "question":
        return np.arange(count, dtype=np.int64)
    # One graph: questions have the first numbers, sources the numbers after them.
    groups = UnionFind(count + len(texts.sources))
    rows = np.concatenate([texts.pair_index, texts.irrelevant])
    groups.join(rows[:, 0], rows[:, 1] + count)
    if together == "near_duplicate":
        total = len(questions_QD) + len(sources_SD)
        for start, vectors in ((0, questions_QD), (count, sources_SD)):
            for at in range(0, len(vectors), BLOCK_QUERIES):
                block = vectors[at : at + BLOCK_QUERIES]
                # Only with later vectors: similarity is symmetric.
                for one, other, _ in pairs_above(block, vectors[at:], near_duplicate):
                    groups.join(one + at + start, other + at + start)
                if advance is not None:
                    advance(start + at + len(block), total)
    return groups.labels()[:count]
