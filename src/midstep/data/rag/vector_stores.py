"""Vector stores: their protocol, an exact store, and the recall of an approximate store.

All stores compare by cosine. They keep embeddings at length 1, so a score is an inner product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.core.field_checks import at_least, one_of, require
from midstep.data.exact_search import Hits, top_k, unit_rows

PAGE = 1000
"""Records that are read, written or searched for together."""


class Hit(NamedTuple):
    """A record that a search returned."""

    id: str
    score: float
    """Cosine of query and record."""


@dataclass(frozen=True)
class Record:
    """A record of a store."""

    id: str
    embedding: NDArray[np.float32]
    """Has length 1."""
    text: str = ""


@runtime_checkable
class VectorStore(Protocol):
    """Records by id, searched by their embeddings."""

    @property
    def exact(self) -> bool:
        """Whether `search` always returns the nearest records; if not, see `store_recall`."""

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Add new records; an id that exists already is refused."""

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids; ids that do not exist are left out."""

    def search(self, queries: NDArray[Any], k: int) -> list[list[Hit]]:
        """The nearest k records of each query, nearest first."""

    def count(self) -> int:
        """How many records there are."""


@dataclass(frozen=True, kw_only=True)
class StoreRecall:
    """Which share of the exact answers a store returns."""

    k: int
    """Hits per query."""
    queries: int
    """Number of queries."""
    mean: float
    """Mean share of the exact k nearest records that the store returned."""
    worst: float
    """The share of the worst query."""


def store_recall(
    store: VectorStore, exact: VectorStore, queries: NDArray[Any], k: int = 10
) -> StoreRecall:
    """Measure the recall of `store` against an exact store with the same records.

    A hit also counts if it is as near as the k-th exact one: of equal scores any record is right.
    """
    k = min(k, exact.count())
    if not len(queries) or not k:
        raise DatasetError("recall needs at least one query and one record")
    shares = []
    for hits, nearest in zip(store.search(queries, k), exact.search(queries, k), strict=True):
        expected_ids = {hit.id for hit in nearest}
        least = nearest[-1].score - 1e-6  # stores sum in different orders, so scores are rounded
        right = sum(hit.id in expected_ids or hit.score >= least for hit in hits)
        shares.append(min(right, k) / k)
    return StoreRecall(
        k=k, queries=len(shares), mean=float(np.mean(shares)), worst=float(np.min(shares))
    )


def as_rows(
    embeddings: NDArray[Any], dimension: int | None, *, count: int | None = None
) -> NDArray[np.float32]:
    """Check the shape and values of embeddings, and scale them to length 1.

    Args:
        embeddings: [N, D].
        dimension: the D of the store; None if it is empty.
        count: the expected N; None for any.

    >>> as_rows(np.array([[3.0, 4.0]]), 2).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    rows = np.asarray(embeddings)
    expected = ("any" if count is None else count, "any" if dimension is None else dimension)
    if rows.ndim != 2 or any(
        wanted not in ("any", size) for wanted, size in zip(expected, rows.shape, strict=True)
    ):
        raise DatasetError(
            f"embeddings have the shape {list(rows.shape)}, expected {list(expected)}"
        )
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        row, column = wrong[0]
        raise DatasetError(f"embedding [{row}, {column}] is {rows[row, column]}, expected a number")
    return unit_rows(rows)


class ExactStore:
    """Compares each query with every record. Fast enough for up to about a million records.

    Args:
        backend: `torch` (blocked matrix products; of equal scores the record added first wins) or
            `faiss` (a flat index; needs the package faiss).

    >>> store = ExactStore()
    >>> store.add(["east", "north"], np.array([[2.0, 0.0], [0.0, 1.0]]), ["→", "↑"])
    >>> store.search(np.array([[1.0, 0.1]]), 1)[0][0].id, store.count()
    ('east', 2)
    """

    exact = True

    def __init__(self, backend: Literal["torch", "faiss"] = "torch") -> None:
        require(one_of("backend", backend, ("torch", "faiss")))
        self._search = top_k if backend == "torch" else _faiss_search
        if backend == "faiss":
            _faiss()  # raises now, and not at the first search, if faiss is not installed
        self._rows_by_id: dict[str, int] = {}
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._blocks: list[NDArray[np.float32]] = []

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Add new records; an id that exists already is refused."""
        dimension = self._blocks[0].shape[1] if self._blocks else None
        rows = as_rows(embeddings, dimension, count=len(ids))
        check_new(ids, self._rows_by_id, texts)
        self._rows_by_id.update((name, len(self._ids) + row) for row, name in enumerate(ids))
        self._ids.extend(ids)
        self._texts.extend(texts if texts is not None else [""] * len(ids))
        self._blocks.append(rows)

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids; ids that do not exist are left out."""
        rows = {name: self._rows_by_id[name] for name in ids if name in self._rows_by_id}
        embeddings = self.embeddings
        return {name: Record(name, embeddings[row], self._texts[row]) for name, row in rows.items()}

    def search(self, queries: NDArray[Any], k: int) -> list[list[Hit]]:
        """The nearest k records of each query; fewer only if the store has fewer."""
        require(at_least("k", k, 1))
        if not self._ids:
            return [[] for _ in queries]
        embeddings = self.embeddings
        scores, rows = self._search(
            as_rows(queries, embeddings.shape[1]), embeddings, min(k, len(embeddings))
        )
        return [
            [Hit(self._ids[row], score) for row, score in zip(*query, strict=True)]
            for query in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def count(self) -> int:
        """How many records there are."""
        return len(self._ids)

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """All embeddings at length 1, in the order in which they were added."""
        if not self._blocks:
            return np.zeros((0, 0), np.float32)
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]


def check_new(ids: Sequence[str], known: Mapping[str, Any], texts: Sequence[str] | None) -> None:
    """Raise unless all ids are new and different, and there is a text for each or none at all."""
    if texts is not None and len(texts) != len(ids):
        raise DatasetError(f"{len(ids)} ids came with {len(texts)} texts; pass one for each id")
    seen: set[str] = set()
    for name in ids:
        if name in seen or name in known:
            raise DatasetError(f"the store has a record {name!r} already; ids must be unique")
        seen.add(name)


def copy_to_exact(store: VectorStore, ids: Sequence[str]) -> ExactStore:
    """Copy records of a store into an exact store, without their texts."""
    exact = ExactStore()
    for start in range(0, len(ids), PAGE):
        records = list(store.get(ids[start : start + PAGE]).values())
        exact.add([each.id for each in records], np.stack([each.embedding for each in records]))
    return exact


def _faiss_search(queries: NDArray[np.float32], rows: NDArray[np.float32], k: int) -> Hits:
    index = _faiss().IndexFlatIP(rows.shape[1])
    index.add(rows)
    hits: Hits = index.search(queries, k)
    return hits


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError.for_library("faiss", "rag") from None
    return faiss
