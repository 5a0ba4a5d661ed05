"""A small steering dataset with everything a builder writes beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.dataset_writer import write_dataset
from midstep.data.steering.storage.layout import Form
from midstep.data.steering.vectors import steering_tables

TOPICS = ("glaciers", "sonnets", "enzymes", "harbours", "fugues", "tariffs", "moths", "bridges")
WIDTH, QUESTIONS, SOURCES, NEGATIVES = 16, 160, 240, 12
PAIRS = 200
TIERS = np.repeat([1, 2, 3, 4], [4, 3, 3, 2])
SECRET = "<b>bold</b> =HYPERLINK(1)"
"""The text of question 0: shown as it is."""


def store_dataset(folder: Path, *, form: Form = "memmap", texts: bool = True) -> Path:
    """Write it into `folder`, which must not exist; gives the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    tables, config = dataset_tables()
    write_dataset(folder, tables, config, form)
    if texts:
        _texts(folder, tables)
        _sidecars(folder)
    return folder


def dataset_tables() -> tuple[dict[str, Any], DatasetConfig]:
    """Questions around eight centroids; negatives of tier 1 from the pair's own cluster."""
    chance = np.random.default_rng(5)
    clusters = len(TOPICS)
    centroids = 2.5 * chance.standard_normal((clusters, WIDTH))
    of_question, of_source = (chance.integers(clusters, size=n) for n in (QUESTIONS, SOURCES))
    # Some lie far from their centroid, so that a gate on the distance has something to do.
    spread = chance.uniform(0.6, 3.5, size=(QUESTIONS, 1))
    questions = centroids[of_question] + spread * chance.standard_normal((QUESTIONS, WIDTH))
    sources = centroids[of_source] + chance.standard_normal((SOURCES, WIDTH))
    keywords = centroids + 0.3 * chance.standard_normal((clusters, WIDTH))
    ends = np.array([_pair(chance, at, of_question, of_source) for at in range(PAIRS)])
    cluster = of_question[ends[:, 0]]
    ids = Ragged.from_lists(
        [[int(each), int(each + 1) % clusters][: at % 3] for at, each in enumerate(cluster)]
    )
    order = chance.permutation(PAIRS)
    tables: dict[str, Any] = {
        "train_idx": np.sort(order[:160]),
        "val_idx": np.sort(order[160:180]),
        "test_idx": np.sort(order[180:]),
        "question_embs": questions.astype(np.float32),
        "source_embs": sources.astype(np.float32),
        "keyword_embs": keywords.astype(np.float32),
        "centroid_embs": centroids.astype(np.float32),
        "pair_index": ends,
        "pair_cluster_id": cluster,
        "pair_relevance": chance.random(PAIRS).astype(np.float32),
        "pair_keyword_ids": ids,
        "hard_negatives": np.array(
            [_row(chance, of_source, cluster[at], ends[at, 1]) for at in range(PAIRS)]
        ),
        "negative_tiers": np.tile(TIERS, (PAIRS, 1)),
        **steering_tables(questions[ends[:, 0]], centroids[cluster], keywords, ids),
    }
    return tables, DatasetConfig(
        embedding_dim=WIDTH,
        n_neg=NEGATIVES,
        n_pairs=PAIRS,
        n_questions=QUESTIONS,
        n_sources=SOURCES,
        n_keywords=clusters,
        n_clusters=clusters,
        random_seed=7,
        steering_definition="standard",
        steering_probabilities={"zero": 0.1, "centroid": 0.2, "keyword": 0.3, "residual": 0.4},
    )


def _pair(chance: Any, at: int, of_question: Any, of_source: Any) -> tuple[int, int]:
    """A question and a source of its cluster."""
    question = at % QUESTIONS
    return question, int(chance.choice(np.flatnonzero(of_source == of_question[question])))


def _row(chance: Any, of_source: Any, cluster: int, positive: int) -> Any:
    own = np.flatnonzero((of_source == cluster) & (np.arange(SOURCES) != positive))
    others = np.flatnonzero(of_source != cluster)
    return np.concatenate(
        [chance.choice(own, 4, replace=False), chance.choice(others, 8, replace=False)]
    )


def _texts(folder: Path, tables: dict[str, Any]) -> None:
    nearest = {
        name: np.linalg.norm(tables[name][:, None] - tables["centroid_embs"], axis=2).argmin(axis=1)
        for name in ("question_embs", "source_embs")
    }
    questions = [
        f"Are {TOPICS[c]} older than observation {at}?"
        for at, c in enumerate(nearest["question_embs"])
    ]
    questions[0] = SECRET
    sources = [
        f"Passage {at} on {TOPICS[c]}. It tells at some length what is known of them."
        for at, c in enumerate(nearest["source_embs"])
    ]
    write_texts(folder, "questions", questions)
    write_texts(folder, "sources", sources)
    write_texts(folder, "keywords", list(TOPICS))


def write_texts(folder: Path, name: str, texts: list[str]) -> None:
    """`texts/NAME.jsonl` and its offsets."""
    (folder / "texts").mkdir(exist_ok=True)
    lines = [json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in texts]
    (folder / "texts" / f"{name}.jsonl").write_bytes(b"".join(lines))
    offsets = np.cumsum([0, *(len(line) for line in lines)]).astype(np.int64)
    np.save(folder / "texts" / f"{name}.offsets.npy", offsets)


def _sidecars(folder: Path) -> None:
    leak = {"split_a": "train", "row_a": 3, "split_b": "test", "row_b": 9, "kind": "source"}
    audit = {
        "format": 1,
        "clean": False,
        "levels": {
            "question": {"leaks": 0, "examples": []},
            "source_text": {"leaks": 1, "examples": [{**leak, "text": "Passage 3 on moths."}]},
            "near_duplicate": {
                "leaks": 2,
                "threshold": 0.95,
                "examples": [
                    {**leak, "similarity": 0.97},
                    {**leak, "row_b": 11, "similarity": 0.96},
                ],
            },
        },
    }
    ledger = {
        "format": 1,
        "quotas": {"1": 4, "2": 3, "3": 3, "4": 2},
        "made": {"1": 796, "2": 604, "3": 600, "4": 400},
        "short_pairs": 2,
        "dropped": 1,
        "shortages": [
            {"pair": 17, "tier": 1, "wanted": 4, "found": 2, "filled_from": {"2": 2}},
            {"pair": 42, "tier": 1, "wanted": 4, "found": 2, "filled_from": {"2": 2}},
        ],
    }
    build = {"format": 1, "encoder": {"name": "hashing-16", "dimension": 16}}
    for name, told in (("audit", audit), ("ledger", ledger), ("build", build)):
        (folder / f"{name}.json").write_text(json.dumps(told))
