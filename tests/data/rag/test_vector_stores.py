"""The exact store against a slow twin, and how recall is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from midstep.core.errors import ConfigError, DatasetError
from midstep.data import ExactStore, VectorStore, store_recall
from midstep.data.rag.vector_stores import Hit

CHANCE = np.random.default_rng(0)
ROWS, QUERIES = CHANCE.standard_normal((50, 7)) * 3, CHANCE.standard_normal((9, 7))
NAMES = [f"r{row}" for row in range(50)]


def slow_search(query: np.ndarray, k: int) -> list[tuple[str, float]]:
    def cosine(row: np.ndarray) -> float:
        return float(query @ row) / float(np.sqrt(query @ query) * np.sqrt(row @ row))

    scored = [(name, cosine(row)) for name, row in zip(NAMES, ROWS, strict=True)]
    return sorted(scored, key=lambda pair: -pair[1])[:k]


@pytest.mark.parametrize("backend", ["torch", "faiss"])
def test_search_finds_the_nearest_by_cosine(backend: Any) -> None:
    if backend == "faiss":
        pytest.importorskip("faiss", reason="pip install 'midstep[rag]'")
    store = ExactStore(backend)
    store.add(NAMES[:20], ROWS[:20])
    store.add(NAMES[20:], ROWS[20:])
    for query, hits in zip(QUERIES, store.search(QUERIES, 5), strict=True):
        expected = slow_search(query, 5)
        assert [hit.id for hit in hits] == [name for name, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in expected], abs=1e-5)


def test_store_is_a_vector_store_and_gives_back_what_it_was_given() -> None:
    store = ExactStore()
    assert isinstance(store, VectorStore)
    store.add(["a", "b"], np.array([[3.0, 4.0], [0.0, 0.0]]), ["one", "two"])
    found = store.get(["b", "a", "c"])
    assert list(found) == ["b", "a"]
    assert found["a"].text == "one"
    assert found["a"].embedding.tolist() == pytest.approx([0.6, 0.8])
    assert store.count() == 2


def test_asking_for_more_than_there_is_gives_all() -> None:
    store = ExactStore()
    assert store.search(np.ones((1, 3)), 4) == [[]]
    store.add(["a", "b"], np.eye(2))
    assert [hit.id for hit in store.search(np.array([[0.0, 1.0]]), 9)[0]] == ["b", "a"]


@pytest.mark.parametrize(
    ("ids", "rows", "texts", "told"),
    [
        (["a"], np.eye(2)[:1], None, "has a record 'a' already"),
        (["c", "c"], np.eye(2), None, "has a record 'c' already"),
        (["c"], np.eye(3)[:1], None, r"shape \[1, 3\], expected \[1, 2\]"),
        (["c"], np.eye(2), None, r"shape \[2, 2\], expected \[1, 2\]"),
        (["c"], np.array([[np.inf, 0.0]]), None, r"embedding \[0, 0\] is inf"),
        (["c"], np.eye(2)[:1], ["x", "y"], "1 ids came with 2 texts"),
    ],
)
def test_wrong_records_are_refused_and_leave_the_store_as_it_was(ids, rows, texts, told) -> None:
    store = ExactStore()
    store.add(["a"], np.eye(2)[:1])
    with pytest.raises(DatasetError, match=told):
        store.add(ids, rows, texts)
    assert store.count() == 1


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of torch, faiss"):
        ExactStore("annoy")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1"):
        ExactStore().search(np.ones((1, 2)), 0)


class Forgetful(ExactStore):
    """Leaves out the nearest hit of every query."""

    exact = False

    def search(self, queries: Any, k: int) -> list[list[Hit]]:
        return [hits[1:] for hits in super().search(queries, k)]


def test_recall_is_the_share_of_the_exact_answer() -> None:
    exact, other = ExactStore(), Forgetful()
    for store in (exact, other):
        store.add(NAMES, ROWS)
    assert store_recall(exact, exact, QUERIES, 4).mean == 1
    found = store_recall(other, exact, QUERIES, 4)
    assert (found.mean, found.worst, found.queries, found.k) == (0.75, 0.75, 9, 4)


def test_equally_near_record_counts_as_found() -> None:
    one, two = ExactStore(), ExactStore()
    one.add(["a", "b"], np.ones((2, 2)))
    two.add(["b", "a"], np.ones((2, 2)))
    assert store_recall(one, two, np.ones((1, 2)), 1).mean == 1
