"""A vector store in ChromaDB, in a local folder: no server, no telemetry, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.core.field_checks import at_least, require
from midstep.data.rag.vector_stores import (
    PAGE,
    Hit,
    Record,
    StoreRecall,
    as_rows,
    check_new,
    copy_to_exact,
    store_recall,
)

GRAPH = {"space": "cosine", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}
"""Settings of the HNSW graph: slower than ChromaDB's defaults, with a better recall."""


class ChromaStore:
    """A collection in a folder, which later processes can open again.

    Its search is approximate; `recall` measures how well it does. One process may write at a time.

    Args:
        folder: created if it is missing.
        collection: name in that folder: 3 to 512 letters, digits, `.`, `_`, `-`.

    >>> with ChromaStore("stores/boolq") as store:  # doctest: +SKIP
    ...     store.add(ids, embeddings, texts)
    ...     print(store.recall(k=10).mean)
    """

    exact = False

    def __init__(self, folder: str | Path, collection: str = "sources") -> None:
        self.folder = Path(folder)
        self._client = _client(self.folder)
        # The default embedding function would download a model; embeddings come from the caller.
        self._records: Any = self._client.get_or_create_collection(
            collection, embedding_function=None, configuration={"hnsw": GRAPH}
        )
        self._dimension: int | None = None
        space = self._records.configuration_json["hnsw"]["space"]
        if space != GRAPH["space"]:
            self.close()
            raise DatasetError(
                f"the collection {collection!r} in {folder} compares by {space}, expected cosine; "
                "choose another collection or folder"
            )

    def __enter__(self) -> ChromaStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database in the folder."""
        self._client.close()

    def add(
        self, ids: Sequence[str], embeddings: NDArray[Any], texts: Sequence[str] | None = None
    ) -> None:
        """Add new records; an id that exists already is refused."""
        rows = as_rows(embeddings, self._width(), count=len(ids))
        # ChromaDB silently ignores an id that exists, so it is checked here.
        known = self._records.get(ids=list(ids), include=[])["ids"] if len(ids) else []
        check_new(ids, dict.fromkeys(known), texts)
        step = min(PAGE, self._client.get_max_batch_size())
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            self._records.add(
                ids=list(ids[part]),
                embeddings=rows[part],
                documents=list(texts[part]) if texts is not None else None,
            )

    def get(self, ids: Sequence[str]) -> Mapping[str, Record]:
        """The records of these ids; ids that do not exist are left out."""
        records: dict[str, Record] = {}
        for start in range(0, len(ids), PAGE):
            wanted = list(dict.fromkeys(ids[start : start + PAGE]))  # ChromaDB refuses repeats
            page = self._records.get(ids=wanted, include=["embeddings", "documents"])
            records.update((record.id, record) for record in _records(page))
        return {name: records[name] for name in ids if name in records}

    def search(self, queries: NDArray[Any], k: int) -> list[list[Hit]]:
        """About the nearest k records of each query, nearest first; the search is approximate."""
        require(at_least("k", k, 1))
        if not self.count():
            return [[] for _ in queries]
        rows, hits = as_rows(queries, self._width()), []
        for start in range(0, len(rows), PAGE):
            page = self._records.query(
                query_embeddings=rows[start : start + PAGE],
                n_results=min(k, self.count()),
                include=["distances"],
            )
            for ids, distances in zip(page["ids"], page["distances"], strict=True):
                hits.append([Hit(i, 1 - float(d)) for i, d in zip(ids, distances, strict=True)])
        return hits

    def count(self) -> int:
        """How many records there are."""
        return int(self._records.count())

    def recall(self, k: int = 10, queries: NDArray[Any] | None = None) -> StoreRecall:
        """Measure which share of the exact answers the search returns.

        Args:
            k: hits per query.
            queries: by default 200 of the records themselves, evenly spread.
        """
        exact = copy_to_exact(self, self._records.get(include=[])["ids"])
        if not exact.count():
            raise DatasetError(f"the store in {self.folder} is empty; add records first")
        if queries is None:
            stored = exact.embeddings
            queries = stored[np.linspace(0, len(stored) - 1, min(200, len(stored))).astype(int)]
        return store_recall(self, exact, queries, k)

    def _width(self) -> int | None:
        if self._dimension is None and self.count():
            first = self._records.get(limit=1, include=["embeddings"])
            self._dimension = int(first["embeddings"].shape[1])
        return self._dimension


def _records(page: Mapping[str, Any]) -> list[Record]:
    texts = page["documents"] or [None] * len(page["ids"])
    return [
        Record(name, np.asarray(embedding, dtype=np.float32), text or "")
        for name, embedding, text in zip(page["ids"], page["embeddings"], texts, strict=True)
    ]


def _client(folder: Path) -> Any:
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError:
        raise MissingExtraError.for_library("chromadb", "rag") from None
    return chromadb.PersistentClient(
        path=str(folder), settings=Settings(anonymized_telemetry=False, allow_reset=False)
    )
