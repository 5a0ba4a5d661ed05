"""The exact store: all records in memory, every query compared with every one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from midstep.core.errors import ConfigError, DatasetError, MissingExtraError
from midstep.data.rag.stores import Hit, Record, as_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ExactStore"]


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
        self._find = _torch_search if backend == "torch" else _faiss_search
        if backend == "faiss":
            _faiss()
        self._places: dict[str, int] = {}
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._blocks: list[NDArray[np.float32]] = []

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Keep new records; an id that is there already is refused."""
        dimension = self._blocks[0].shape[1] if self._blocks else None
        rows = as_rows(embeddings, dimension, count=len(ids))
        check_new(ids, self._places, texts)
        self._places.update((name, len(self._ids) + row) for row, name in enumerate(ids))
        self._ids.extend(ids)
        self._texts.extend(texts if texts is not None else [""] * len(ids))
        self._blocks.append(rows)

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids, of those that are there."""
        places = {name: self._places[name] for name in ids if name in self._places}
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
        scores, found = self._find(as_rows(queries, rows.shape[1]), rows, min(k, len(rows)))
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


def _torch_search(
    queries: NDArray[np.float32], rows: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from midstep.data.build.search import top_k

    return top_k(queries, rows, k)


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
