"""Which questions hang together and must not be torn apart by a split."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.data.build.config import KeptTogether
from midstep.data.build.distinct import Distinct
from midstep.data.build.search import BLOCK_QUERIES, above

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Groups", "question_groups"]

Advance = Callable[[int, int], None]


class Groups:
    """Numbers that are joined step by step (union-find); a group is known by its lowest number.

    >>> groups = Groups(4)
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
            above_it = self._parent[self._parent]
            if np.array_equal(above_it, self._parent):
                return self._parent.copy()
            self._parent = above_it


def question_groups(
    texts: Distinct,
    questions_QD: NDArray[Any],  # noqa: N803 - shape suffix
    sources_SD: NDArray[Any],  # noqa: N803 - shape suffix
    *,
    together: KeptTogether,
    near_duplicate: float,
    advance: Advance | None = None,
) -> NDArray[np.int64]:
    """The group of each question.

    Args:
        texts: with the pairs.
        questions_QD: unit vectors.
        sources_SD: unit vectors.
        together: see `BuildConfig.keep_together`.
        near_duplicate: cosine from which two texts are nearly the same.
        advance: told how many texts have been compared.
    """
    count = len(texts.questions)
    if together == "question":
        return np.arange(count, dtype=np.int64)
    # One graph: questions first, sources behind them.
    groups = Groups(count + len(texts.sources))
    rows = np.concatenate([texts.pair_index, texts.irrelevant])
    groups.join(rows[:, 0], rows[:, 1] + count)
    if together == "near_duplicate":
        total = len(questions_QD) + len(sources_SD)
        for start, vectors in ((0, questions_QD), (count, sources_SD)):
            for at in range(0, len(vectors), BLOCK_QUERIES):
                block = vectors[at : at + BLOCK_QUERIES]
                for one, other, _ in above(block, vectors[at:], near_duplicate):
                    groups.join(one + at + start, other + at + start)
                if advance is not None:
                    advance(start + at + len(block), total)
    return groups.labels()[:count]
