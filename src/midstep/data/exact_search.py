"""Exact nearest-neighbour search: the rows with the largest inner products, block by block.

`top_k` gives the best rows of each query, `pairs_above` all pairs from a score on. Neither ever
holds the whole score matrix. `unit` and `unit_rows` scale rows to length 1, so that an inner
product is a cosine.

Q queries, R rows, D numbers in a vector, K best rows, B rows of a block, G groups in a block.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require
from midstep.data.ragged import Ragged

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# torch is imported inside the functions that need it: writing a cluster dataset or filling a vector
# store uses `unit_rows` only, and should not wait for the import of torch.

BLOCK_QUERIES = 512
"""Queries multiplied together."""
BLOCK_ROWS = 8192
"""Rows multiplied together. A block of scores is 16 MiB then: large enough for the matrix product
to run at full speed, small compared with the tables."""
GROUP = 32
"""Rows of a group; see `_Best`."""
SHORTEST = 1e-12
"""Vectors up to this length have no direction."""

Hits = tuple["NDArray[np.float32]", "NDArray[np.int64]"]
"""Scores [Q, K] and row numbers [Q, K]."""


def unit(vectors_ND: NDArray[Any]) -> Floats:
    """Scale each row to length 1, in float64. Rows of length 0 stay zero.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    wide = np.asarray(vectors_ND, dtype=np.float64)
    length = np.linalg.norm(wide, axis=-1, keepdims=True)
    scaled: Floats = np.zeros_like(wide)
    np.divide(wide, length, out=scaled, where=length > SHORTEST)
    return scaled


def unit_rows(vectors_ND: NDArray[Any]) -> NDArray[np.float32]:
    """`unit`, rounded to float32."""
    return unit(vectors_ND).astype(np.float32)


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor that shares the memory of `array`. Callers only read it."""
    import torch

    with warnings.catch_warnings():  # mapped tables are read-only, and torch warns of that
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def top_k(
    queries_QD: NDArray[Any],
    rows_RD: NDArray[Any],
    k: int,
    *,
    excluded: Ragged | None = None,
    at_most: NDArray[Any] | None = None,
) -> Hits:
    """Find the k rows with the largest inner product for each query, largest first.

    Of equal scores the lower row comes first, whatever the block size. Where fewer than k rows are
    allowed, the remaining entries are row −1 with the score −inf.

    Args:
        queries_QD: one query per row; give unit vectors for cosines.
        rows_RD: the rows to search.
        k: how many rows to find for each query.
        excluded: for every query, the rows that it must not get.
        at_most: for every query, the largest score it may get.

    Returns:
        Scores [Q, k], float32, and row numbers [Q, k].

    >>> scores, rows = top_k(np.eye(2), np.array([[1.0, 0], [0, 3], [2, 0]]), 2)
    >>> rows.tolist(), scores.tolist()
    ([[2, 0], [1, 0]], [[2.0, 1.0], [3.0, 0.0]])
    """
    queries, rows = _matrix(queries_QD), _matrix(rows_RD)
    if queries.shape[1] != rows.shape[1]:
        raise ConfigError(
            f"queries have the width {queries.shape[1]}, rows {rows.shape[1]}; encode both with "
            "the same encoder"
        )
    require(at_least("k", k, 1))
    best_scores, best_rows = _no_hits(len(queries), k)
    for start in range(0, len(queries), BLOCK_QUERIES):
        part = slice(start, min(start + BLOCK_QUERIES, len(queries)))
        best = _Best(part.stop - part.start, k)
        for first, block in _products(queries[part], rows):
            best.add(_masked(block, first, part, excluded, at_most), first)
        best_scores[part], best_rows[part] = best.scores, best.rows
    return best_scores, best_rows


def pairs_above(
    queries_QD: NDArray[Any], rows_RD: NDArray[Any], least: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Yield all (query, row, score) with a score of at least `least`, block by block.

    >>> [(q.tolist(), r.tolist()) for q, r, _ in pairs_above(np.eye(2), np.eye(2), 0.5)]
    [([0, 1], [0, 1])]
    """
    import torch

    queries, rows = _matrix(queries_QD), _matrix(rows_RD)
    for start in range(0, len(queries), BLOCK_QUERIES):
        for first, block in _products(queries[start : start + BLOCK_QUERIES], rows):
            # Most blocks hold no pair, and one maximum is cheaper than a mask of 4 million flags.
            if float(block.max()) < least:
                continue
            at = torch.nonzero(block >= least).numpy()
            scores = block.numpy()[at[:, 0], at[:, 1]]
            yield at[:, 0] + start, at[:, 1] + first, scores


def merge_hits(parts: list[Hits], k: int) -> Hits:
    """The best k hits of several searches with the same queries.

    >>> one = np.array([[2.0, 1.0]], np.float32), np.array([[7, 3]])
    >>> two = np.array([[2.0, -np.inf]], np.float32), np.array([[4, -1]])
    >>> merge_hits([one, two], 2)[1].tolist()
    [[4, 7]]
    """
    scores = np.concatenate([each[0] for each in parts], axis=1)
    rows = np.concatenate([each[1] for each in parts], axis=1)
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    width = order.shape[1]
    best_scores, best_rows = _no_hits(len(scores), k)
    best_scores[:, :width] = np.take_along_axis(scores, order, axis=1)
    best_rows[:, :width] = np.take_along_axis(rows, order, axis=1)
    best_rows[np.isneginf(best_scores)] = -1
    return best_scores, best_rows


def _no_hits(queries: int, k: int) -> Hits:
    scores = np.full((queries, k), -np.inf, dtype=np.float32)
    return scores, np.full((queries, k), -1, dtype=np.int64)


def _matrix(values: NDArray[Any]) -> torch.Tensor:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 2:
        raise ConfigError(f"vectors must be a matrix [N, D], got the shape {list(array.shape)}")
    return as_tensor(array)


def _products(queries: torch.Tensor, rows: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Scores of the queries with block after block of rows, in one reused buffer."""
    import torch

    width = min(BLOCK_ROWS, len(rows))
    buffer = torch.empty(len(queries) * width)
    for first in range(0, len(rows), BLOCK_ROWS):
        block = rows[first : first + BLOCK_ROWS]
        out = buffer[: len(queries) * len(block)].view(len(queries), len(block))
        yield first, torch.mm(queries, block.T, out=out)


def _masked(
    block: torch.Tensor,
    first: int,
    part: slice,
    excluded: Ragged | None,
    at_most: NDArray[Any] | None,
) -> torch.Tensor:
    """The scores, with −inf at rows that a query must not get."""
    import torch

    if at_most is not None:
        limit = torch.from_numpy(np.asarray(at_most[part], dtype=np.float32))
        block.masked_fill_(block > limit[:, None], -torch.inf)
    if excluded is not None:
        offsets = excluded.offsets[part.start : part.stop + 1]
        values = excluded.values[offsets[0] : offsets[-1]]
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        inside = (values >= first) & (values < first + block.shape[1])
        block.numpy()[owner[inside], values[inside] - first] = -np.inf
    return block


class _Best:
    """The best k rows of each query among the blocks added so far.

    The rows of a block form groups of `GROUP`. The k-th largest of the groups' maxima is a bound
    that at least k rows reach, so the k best rows are among those that reach it. Only groups with
    such a row are searched, and fewer with every block, because the bound rises. The result is
    exact by construction.
    """

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.scores, self.rows = _no_hits(queries, k)

    def add(self, block: torch.Tensor, first: int) -> None:
        """Add a block whose first column is the row `first`; blocks come in the order of rows."""
        query, column, score = self._reaching(block)
        known = self.rows >= 0
        queries = np.concatenate([np.nonzero(known)[0], query])
        rows = np.concatenate([self.rows[known], column + first])
        scores = np.concatenate([self.scores[known], score])
        self.scores, self.rows = _rank(queries, rows, scores, len(block), self.k)

    def _reaching(
        self, block: torch.Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Entries of the block that can be among the best: query, column, score."""
        import torch

        width = block.shape[1]
        groups = -(-width // GROUP)
        if width % GROUP:  # the last group is padded with scores that are never the best
            block = torch.nn.functional.pad(block, (0, groups * GROUP - width), value=-torch.inf)
        maxima = block.view(len(block), groups, GROUP).amax(dim=2)
        bound = torch.from_numpy(self.scores[:, -1].copy())
        reached = maxima if groups >= self.k else block  # fewer than k maxima give no bound
        if reached.shape[1] >= self.k:
            bound = torch.maximum(bound, torch.topk(reached, self.k, dim=1).values[:, -1])
        # −inf marks excluded rows. Without this clamp they would reach the bound −inf of a query
        # that has fewer than k rows so far.
        bound.clamp_(min=torch.finfo(torch.float32).min)
        query, group = torch.nonzero(maxima >= bound[:, None], as_tuple=True)
        inside = block.view(len(block), groups, GROUP)[query, group]
        hit, offset = torch.nonzero(inside >= bound[query, None], as_tuple=True)
        column = group[hit] * GROUP + offset
        return query[hit].numpy(), column.numpy(), inside[hit, offset].numpy()


def _rank(
    queries: NDArray[np.int64],
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    count: int,
    k: int,
) -> Hits:
    """Sort entries into a table: for each query its k best, of equal scores the lower row first."""
    order = np.lexsort((rows, -scores, queries))
    queries, rows, scores = queries[order], rows[order], scores[order]
    starts = np.searchsorted(queries, np.arange(count))
    rank = np.arange(len(queries)) - starts[queries]
    inside = rank < k
    best_scores, best_rows = _no_hits(count, k)
    best_scores[queries[inside], rank[inside]] = scores[inside]
    best_rows[queries[inside], rank[inside]] = rows[inside]
    return best_scores, best_rows
