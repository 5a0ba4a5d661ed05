"""Exact search: the rows with the largest inner products, in blocks, never the whole matrix.

Q queries, R rows, D numbers in a vector, K found rows, B rows of a block, G groups in a block.

A block of scores is one matrix product. The K-th largest of its groups' maxima is a bound that K
rows reach, so the K best are among the rows that reach it: only groups with such a row are looked
into, and fewer with every block, as the bound rises. Nothing is missed, by construction.
Of equal scores the lower row comes first, whatever the blocks are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from midstep.core.errors import ConfigError
from midstep.data.embedding.layout import Ragged
from midstep.data.embedding.rows import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BLOCK_QUERIES", "Found", "above", "merged", "top_k"]

BLOCK_QUERIES = 512
BLOCK_ROWS = 8192
"""A block of scores is 16 MiB then: large enough for the product, small beside the tables."""
GROUP = 32
"""Rows of a group."""

Found = tuple["NDArray[np.float32]", "NDArray[np.int64]"]
"""Scores [Q, K] and rows [Q, K]."""


def top_k(
    queries_QD: NDArray[Any],  # noqa: N803 - shape suffix
    rows_RD: NDArray[Any],  # noqa: N803 - shape suffix
    k: int,
    *,
    block_rows: int = BLOCK_ROWS,
    excluded: Ragged | None = None,
    at_most: NDArray[Any] | None = None,
) -> Found:
    """The k rows with the largest inner product for each query, largest first.

    Where fewer than k rows are allowed, the rest is row −1 with the score −inf.

    Args:
        queries_QD: one a row; for cosines give unit vectors.
        rows_RD: what is searched.
        k: how many to find.
        block_rows: rows multiplied together; changes speed and memory only.
        excluded: for every query the rows it must not get.
        at_most: for every query the largest score it may get.

    Returns:
        Scores [Q, k], float32, and row numbers [Q, k].

    >>> scores, rows = top_k(np.eye(2), np.array([[1.0, 0], [0, 3], [2, 0]]), 2)
    >>> rows.tolist(), scores.tolist()
    ([[2, 0], [1, 0]], [[2.0, 1.0], [3.0, 0.0]])
    """
    queries, rows = _matrix(queries_QD), _matrix(rows_RD)
    if queries.shape[1] != rows.shape[1]:
        raise ConfigError(
            f"queries are {queries.shape[1]} wide and rows {rows.shape[1]}; encode both alike"
        )
    if k < 1 or block_rows < 1:
        raise ConfigError(f"k and block_rows must be at least 1, got {k} and {block_rows}")
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    found = np.full((len(queries), k), -1, dtype=np.int64)
    for start in range(0, len(queries), BLOCK_QUERIES):
        part = slice(start, min(start + BLOCK_QUERIES, len(queries)))
        best = _Best(part.stop - part.start, k)
        for first, block in _products(queries[part], rows, block_rows):
            best.take(_masked(block, first, part, excluded, at_most), first)
        scores[part], found[part] = best.scores, best.rows
    return scores, found


def above(
    queries_QD: NDArray[Any],  # noqa: N803 - shape suffix
    rows_RD: NDArray[Any],  # noqa: N803 - shape suffix
    least: float,
    *,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """All (query, row, score) with a score of at least `least`, block by block.

    >>> [(q.tolist(), r.tolist()) for q, r, _ in above(np.eye(2), np.eye(2), 0.5)]
    [([0, 1], [0, 1])]
    """
    queries, rows = _matrix(queries_QD), _matrix(rows_RD)
    for start in range(0, len(queries), BLOCK_QUERIES):
        for first, block in _products(queries[start : start + BLOCK_QUERIES], rows, block_rows):
            # Looking for the largest of a query is cheaper than comparing every score with memory.
            if float(block.max()) < least:
                continue
            at = torch.nonzero(block >= least).numpy()
            hits = block.numpy()[at[:, 0], at[:, 1]]
            yield at[:, 0] + start, at[:, 1] + first, hits


def merged(parts: list[Found], k: int) -> Found:
    """The best k of several answers to the same queries.

    >>> one = np.array([[2.0, 1.0]], np.float32), np.array([[7, 3]])
    >>> two = np.array([[2.0, -np.inf]], np.float32), np.array([[4, -1]])
    >>> merged([one, two], 2)[1].tolist()
    [[4, 7]]
    """
    scores = np.concatenate([each[0] for each in parts], axis=1)
    rows = np.concatenate([each[1] for each in parts], axis=1)
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    width = order.shape[1]
    best = np.full((len(scores), k), -np.inf, dtype=np.float32)
    found = np.full((len(scores), k), -1, dtype=np.int64)
    best[:, :width] = np.take_along_axis(scores, order, axis=1)
    found[:, :width] = np.take_along_axis(rows, order, axis=1)
    found[np.isneginf(best)] = -1
    return best, found


def _matrix(values: NDArray[Any]) -> torch.Tensor:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 2:
        raise ConfigError(f"vectors must be a matrix, got the shape {list(array.shape)}")
    return as_tensor(array)


def _products(
    queries: torch.Tensor, rows: torch.Tensor, block_rows: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Scores of the queries with block after block of rows, in one reused buffer."""
    width = min(block_rows, len(rows))
    buffer = torch.empty(len(queries) * width)
    for first in range(0, len(rows), max(1, block_rows)):
        block = rows[first : first + block_rows]
        out = buffer[: len(queries) * len(block)].view(len(queries), len(block))
        yield first, torch.mm(queries, block.T, out=out)


def _masked(
    block: torch.Tensor,
    first: int,
    part: slice,
    excluded: Ragged | None,
    at_most: NDArray[Any] | None,
) -> torch.Tensor:
    """The scores with −inf at what must not be found."""
    if at_most is not None:
        limit = torch.from_numpy(np.asarray(at_most[part], dtype=np.float32))
        block.masked_fill_(block > limit[:, None], -torch.inf)
    if excluded is not None:
        offsets = excluded.offsets[part.start : part.stop + 1]
        values = excluded.values[offsets[0] : offsets[-1]]
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        here = (values >= first) & (values < first + block.shape[1])
        block.numpy()[owner[here], values[here] - first] = -np.inf
    return block


class _Best:
    """The best k rows of each query among the blocks taken so far."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.scores = np.full((queries, k), -np.inf, dtype=np.float32)
        self.rows = np.full((queries, k), -1, dtype=np.int64)

    def take(self, block: torch.Tensor, first: int) -> None:
        """Another block, whose first column is the row `first`; later blocks have later rows."""
        query, column, score = self._reaching(block)
        kept = self.rows >= 0
        queries = np.concatenate([np.nonzero(kept)[0], query])
        rows = np.concatenate([self.rows[kept], column + first])
        scores = np.concatenate([self.scores[kept], score])
        self.scores, self.rows = _ranked(queries, rows, scores, len(block), self.k)

    def _reaching(
        self, block: torch.Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Entries of the block that can be among the best: query, column, score."""
        width = block.shape[1]
        groups = -(-width // GROUP)
        if width % GROUP:  # the last group is filled up with what is never found
            block = torch.nn.functional.pad(block, (0, groups * GROUP - width), value=-torch.inf)
        maxima = block.view(len(block), groups, GROUP).amax(dim=2)
        bound = torch.from_numpy(self.scores[:, -1].copy())
        reached = maxima if groups >= self.k else block  # few groups bound nothing; rows do
        if reached.shape[1] >= self.k:
            bound = torch.maximum(bound, torch.topk(reached, self.k, dim=1).values[:, -1])
        # −inf marks what must not be found, also while fewer than k rows have been.
        bound.clamp_(min=torch.finfo(torch.float32).min)
        query, group = torch.nonzero(maxima >= bound[:, None], as_tuple=True)
        inside = block.view(len(block), groups, GROUP)[query, group]
        hit, place = torch.nonzero(inside >= bound[query, None], as_tuple=True)
        column = group[hit] * GROUP + place
        return query[hit].numpy(), column.numpy(), inside[hit, place].numpy()


def _ranked(
    queries: NDArray[np.int64],
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    count: int,
    k: int,
) -> Found:
    """Entries as a table: for each query its k best, of equal scores the lower row first."""
    order = np.lexsort((rows, -scores, queries))
    queries, rows, scores = queries[order], rows[order], scores[order]
    starts = np.searchsorted(queries, np.arange(count))
    rank = np.arange(len(queries)) - starts[queries]
    inside = rank < k
    best = np.full((count, k), -np.inf, dtype=np.float32)
    found = np.full((count, k), -1, dtype=np.int64)
    best[queries[inside], rank[inside]] = scores[inside]
    found[queries[inside], rank[inside]] = rows[inside]
    return best, found
