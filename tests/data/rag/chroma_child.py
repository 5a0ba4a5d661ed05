"""Run as a program by test_chroma.py: each call is a process that opens the store for itself."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data import ChromaStore, ExactStore, PassageDataset, VectorStore

TOPICS = ("snow", "fire", "river", "desert", "violin", "market", "planet", "harbour")
PAIRS = [
    (f"what is told of the {topic} number {row}", f"About the {topic}, part {part} of {row}.")
    for topic in TOPICS
    for row in range(15)
    for part in range(2)
]


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("the network was asked for")


def write(folder: str) -> dict[str, Any]:
    with ChromaStore(folder) as store:
        assert isinstance(store, VectorStore)
        assert store.search(np.ones((1, 384)), 3) == [[]]
        report = PassageDataset(PAIRS, store=store).validate()
        assert report.recall is not None
        told = []
        for ids, rows in ((["s0"], np.ones((1, 384))), (["new"], np.ones((1, 3)))):
            try:
                store.add(ids, rows)
            except DatasetError as error:
                told.append(str(error))
        store._client.create_collection("crooked", embedding_function=None)  # by l2
        try:
            ChromaStore(folder, "crooked")
        except DatasetError as error:
            told.append(str(error))
        return {"count": store.count(), "recall": report.recall.mean, "told": told}


def read(folder: str) -> dict[str, Any]:
    class Silent:
        """Questions are encoded, and one passage as a sample; all others come from the store."""

        name, dimension = "silent", 384

        def encode(self, texts: Any) -> Any:
            assert all(text.startswith("what") for text in texts) or list(texts) == [PAIRS[0][1]]
            return exact.encoder.encode(texts)

    exact = PassageDataset(PAIRS, store=ExactStore())
    with ChromaStore(folder) as store:
        stored = PassageDataset(PAIRS, store=store, encoder=Silent())
        recall = store.recall(k=5)
        made = {
            kind: [list(dataset.generate_samples(kind, k=3)) for dataset in (stored, exact)]
            for kind in ("positive", "contrastive", "similar")
        }
        record = store.get(["s1", "nobody", "s0"])
        return {
            "count": store.count(),
            "recall": recall.mean,
            "ids": list(record),
            "text": record["s0"].text,
            "length": float(np.linalg.norm(record["s0"].embedding)),
            "made": {kind: len(pair[0]) for kind, pair in made.items()},
            "shared": {kind: len(set(a) & set(b)) / len(a) for kind, (a, b) in made.items()},
        }


if __name__ == "__main__":
    socket.socket.connect = refuse  # type: ignore[method-assign,assignment]
    print(json.dumps({"write": write, "read": read}[sys.argv[1]](sys.argv[2])))
