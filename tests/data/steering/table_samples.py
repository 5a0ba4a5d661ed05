"""Small datasets for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig

DIM, PAIRS, NEGATIVES = 6, 60, 4


def sample_config(**changes: Any) -> DatasetConfig:
    settings: dict[str, Any] = {
        "embedding_dim": DIM,
        "n_neg": NEGATIVES,
        "n_pairs": PAIRS,
        "n_questions": 25,
        "n_sources": 40,
        "n_keywords": 9,
        "n_clusters": 5,
        "steering_probabilities": {
            "zero": 0.25,
            "centroid": 0.25,
            "keyword": 0.25,
            "residual": 0.25,
        },
        "random_seed": 7,
    }
    return DatasetConfig(**{**settings, **changes})


def sample_tables(config: DatasetConfig | None = None, *, half: bool = False) -> dict[str, Any]:
    """Random tables that obey every rule; `half` keeps the sources as float16."""
    config = config or sample_config()
    chance = np.random.default_rng(3)
    pairs, width = config.n_pairs, config.embedding_dim

    def floats(*shape: int) -> Any:
        return chance.standard_normal(shape).astype(np.float32)

    sources = chance.integers(config.n_sources, size=pairs)
    shift = np.argsort(chance.random((pairs, config.n_sources - 1)), axis=1)[:, : config.n_neg] + 1
    order = chance.permutation(pairs)
    first, second = int(0.8 * pairs), int(0.9 * pairs)
    return {
        "train_idx": np.sort(order[:first]),
        "val_idx": np.sort(order[first:second]),
        "test_idx": np.sort(order[second:]),
        "question_embs": floats(config.n_questions, width),
        "source_embs": floats(config.n_sources, width).astype(np.float16 if half else np.float32),
        "keyword_embs": floats(config.n_keywords, width),
        "centroid_embs": floats(config.n_clusters, width),
        "pair_index": np.stack([chance.integers(config.n_questions, size=pairs), sources], axis=1),
        "pair_cluster_id": chance.integers(config.n_clusters, size=pairs),
        "pair_relevance": chance.random(pairs).astype(np.float32),
        "pair_keyword_ids": Ragged.from_lists(
            [
                chance.integers(config.n_keywords, size=count).tolist()
                for count in chance.integers(4, size=pairs)
            ]
        ),
        "hard_negatives": (sources[:, None] + shift) % config.n_sources,
        "negative_tiers": np.sort(chance.integers(1, 5, size=(pairs, config.n_neg)), axis=1),
        "steering_centroid": floats(pairs, width),
        "steering_keyword_weighted": floats(pairs, width),
        "steering_residual": floats(pairs, width),
        "centroid_distances": (chance.random(pairs) * 2).astype(np.float32),
    }
