"""Vector stores: what is asked of one, and how near an approximate one comes to the exact answer.

All stores compare by cosine: embeddings are kept at length 1, a score is the inner product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from midstep.core.errors import ConfigError, DatasetError, MissingExtraError
from midstep.data.exact_search import top_k, unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    return unit_rows(rows)


class ExactStore:
    """Finds the nearest records, by definition: up to about a million of them that is fast too.

    Args:
        backend: `torch` (blocked matrix products; of equal scores the record added first) or
            `faiss` (a flat index, if faiss is installed).

    >>> store = ExactStore()
    >>> store.add(["east", "north"], np.array([[2.0, 0.0], [0.0, 1.0]]), ["→", "↑"])
    >>> store.search(np.array([[1.0, 0.1]]), 1)[0][0].id, store.count()
    ('east', 2)
    """

    exact = True

    def __init__(self, backend: Literal["torch", "faiss"] = "torch") -> None:
        if backend not in ("torch", "faiss"):
            raise ConfigError(f"backend {backend!r} is unknown; use torch or faiss")
        self._search = top_k if backend == "torch" else _faiss_search
        if backend == "faiss":
            _faiss()
        self._rows_by_id: dict[str, int] = {}
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._blocks: list[NDArray[np.float32]] = []

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Keep new records; an id that is there already is refused."""
        dimension = self._blocks[0].shape[1] if self._blocks else None
        rows = as_rows(embeddings, dimension, count=len(ids))
        check_new(ids, self._rows_by_id, texts)
        self._rows_by_id.update((name, len(self._ids) + row) for row, name in enumerate(ids))
        self._ids.extend(ids)
        self._texts.extend(texts if texts is not None else [""] * len(ids))
        self._blocks.append(rows)

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids, of those that are there."""
        places = {name: self._rows_by_id[name] for name in ids if name in self._rows_by_id}
        rows = self.embeddings if places else None
        return {
            name: Record(name, rows[place], self._texts[place])
            for name, place in places.items()
            if rows is not None
        }

    def search(self, queries: NDArray[Any], k: int) -> list[list[Hit]]:
        """The nearest k records of each query; fewer only where there are fewer."""
        if k < 1:
            raise ConfigError(f"k must be at least 1, got {k}")
        if not self._ids:
            return [[] for _ in queries]
        rows = self.embeddings
        scores, found = self._search(as_rows(queries, rows.shape[1]), rows, min(k, len(rows)))
        return [
            [Hit(self._ids[place], score) for place, score in zip(places, line, strict=True)]
            for places, line in zip(found.tolist(), scores.tolist(), strict=True)
        ]

    def count(self) -> int:
        """How many records there are."""
        return len(self._ids)

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """All embeddings in the order they came, at length 1."""
        if not self._blocks:
            return np.zeros((0, 0), np.float32)
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]


def check_new(ids: Sequence[str], known: Mapping[str, Any], texts: Sequence[str] | None) -> None:
    """Ids must be new and differ; there must be a text for each, or none at all."""
    if texts is not None and len(texts) != len(ids):
        raise DatasetError(f"{len(ids)} ids came with {len(texts)} texts")
    seen: set[str] = set()
    for name in ids:
        if name in seen or name in known:
            raise DatasetError(f"the store has a record {name!r} already; ids must be unique")
        seen.add(name)


def _faiss_search(
    queries: NDArray[np.float32], rows: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    index = _faiss().IndexFlatIP(rows.shape[1])
    index.add(rows)
    scores, found = index.search(queries, k)
    return scores, found


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError.of("faiss", "rag") from None
    return faiss
