"""Small tables of texts for tests of the builder."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midstep.data.build.build_config import BuildConfig

TOPICS = ("ocean", "mountain", "music", "bread", "engine", "river")
HEAD = ("question", "source", "relevance", "keywords")


def topic_rows(count: int = 150, seed: int = 0) -> list[dict[str, Any]]:
    """Questions about topics, each with one source of its own."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        topic = TOPICS[chance.integers(len(TOPICS))]
        words = [f"{topic}{chance.integers(30)}" for _ in range(4)]
        rows.append(
            {
                "question": f"What of {' '.join(words)} and case{number}?",
                "source": f"On {topic}: {' '.join(words[:3])} with detail{number} told.",
                "relevance": round(float(chance.uniform(0.2, 1.0)), 3),
                "keywords": f"{topic};{words[0]}",
            }
        )
    return rows


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def build_config(table: Path, out: Path, **changes: Any) -> BuildConfig:
    settings: dict[str, Any] = {"encoder": "hashing:32", "n_neg": 6, "n_clusters": 7, "seed": 3}
    return BuildConfig(tables=table, out=out, **{**settings, **changes})
