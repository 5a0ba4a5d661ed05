"""Vector stores: what is asked of one, and how near an approximate one comes to the exact answer.

All stores compare by cosine: embeddings are kept at length 1, a score is the inner product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.embedding.steering import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Hit", "Record", "StoreRecall", "VectorStore", "as_rows", "store_recall"]


class Hit(NamedTuple):
    """A record that was found."""

    id: str
    score: float
    """Cosine of query and record."""


@dataclass(frozen=True)
class Record:
    """What a store keeps under an id."""

    id: str
    embedding: NDArray[np.float32]
    """At length 1."""
    text: str = ""


@runtime_checkable
class VectorStore(Protocol):
    """Records by id, found by their embeddings."""

    @property
    def exact(self) -> bool:
        """Whether `search` always finds the nearest; if not, see `store_recall`."""
        ...

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Keep new records; an id that is there already is refused."""
        ...

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids, of those that are there."""
        ...

    def search(self, queries: NDArray[Any], k: int) -> list[list[Hit]]:
        """The nearest k records of each query, nearest first."""
        ...

    def count(self) -> int:
        """How many records there are."""
        ...


@dataclass(frozen=True, kw_only=True)
class StoreRecall:
    """How much of the exact answer a store finds."""

    k: int
    """Hits asked for."""
    queries: int
    """Queries asked."""
    mean: float
    """Share of the exact k nearest that was found, over all queries."""
    worst: float
    """Of the query that came off worst."""


def store_recall(
    store: VectorStore, exact: VectorStore, queries: NDArray[Any], k: int = 10
) -> StoreRecall:
    """Recall of `store` against an exact one that holds the same records.

    A hit counts when it is as near as the k-th exact one: of equally near records either is right.
    """
    k = min(k, exact.count())
    if not len(queries) or not k:
        raise DatasetError("recall needs at least one query and one record")
    shares = []
    answers = zip(store.search(queries, k), exact.search(queries, k), strict=True)
    for found, wanted in answers:
        good = {hit.id for hit in wanted}
        least = wanted[-1].score - 1e-6
        hits = sum(hit.id in good or hit.score >= least for hit in found)
        shares.append(min(hits, k) / k)
    return StoreRecall(
        k=k, queries=len(shares), mean=float(np.mean(shares)), worst=float(np.min(shares))
    )


def as_rows(
    embeddings: NDArray[Any], dimension: int | None, *, count: int | None = None
) -> NDArray[np.float32]:
    """Embeddings at length 1, once their shape and values are right.

    Args:
        embeddings: [N, D].
        dimension: D of the store, if it has one already.
        count: N, if it must be that.

    >>> as_rows(np.array([[3.0, 4.0]]), 2).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    rows = np.asarray(embeddings)
    expected = ("any" if count is None else count, "any" if dimension is None else dimension)
    if rows.ndim != 2 or any(
        wanted not in ("any", found) for wanted, found in zip(expected, rows.shape, strict=False)
    ):
        raise DatasetError(
            f"embeddings have the shape {list(rows.shape)}, expected {list(expected)}"
        )
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        row, column = wrong[0]
        raise DatasetError(f"embedding [{row}, {column}] is {rows[row, column]}, expected a number")
    return unit(rows).astype(np.float32)
