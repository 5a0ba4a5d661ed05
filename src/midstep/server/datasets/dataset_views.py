"""Stored datasets as responses: the list, one dataset, its pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from midstep.core.errors import DatasetError
from midstep.server.datasets.data_roots import (
    MOST_DATASETS,
    DataRoots,
    StoredDataset,
    damaged,
    irregular_problem,
    message_without_paths,
)
from midstep.server.datasets.dataset_files import has_texts, read_sidecar, texts_of
from midstep.server.datasets.dataset_schemas import DatasetName

if TYPE_CHECKING:
    import numpy as np

    from midstep.data.steering.storage.dataset_config import DatasetConfig
    from midstep.data.steering.storage.tables import Tables

    Ids = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]

MOST_CLUSTERS = 10_000
"""Clusters that are listed; `counts` has their number."""
MOST_COUNTED = 100_000
"""Pairs whose negatives are counted by tier; of more pairs an even sample is counted."""
MOST_CACHED = 64
"""Cached results of each function that reads a whole table. The key is the `StoredDataset`, whose
stamp changes with the files."""
SPLITS = ("train", "val", "test")


@lru_cache(2 * MOST_DATASETS)
def summary_json(stored: StoredDataset) -> dict[str, Any]:
    """The fields of `DatasetSummary`."""
    from midstep.data.steering.storage.dataset_config import read_config

    blank: dict[str, Any] = {
        **DatasetName.pick(vars(stored)),
        "state": "damaged",
        "problem": None,
        "form": None,
        "counts": None,
        "schedule": None,
    }
    if stored.irregular is not None:
        return {**blank, "problem": irregular_problem(stored)}
    try:
        config = read_config(stored.folder)
    except DatasetError as error:
        return {**blank, "problem": message_without_paths(stored, error)}
    return {
        **blank,
        "state": "ready",
        "form": config.storage_format,
        "counts": _counts(config),
        "schedule": str(config.curriculum["name"]),
    }


def _counts(config: DatasetConfig) -> dict[str, int]:
    names = ("pairs", "questions", "sources", "keywords", "clusters")
    return {
        **{name: getattr(config, f"n_{name}") for name in names},
        "negatives": config.n_neg,
        "dimension": config.embedding_dim,
    }


@lru_cache(MOST_CACHED)
def dataset_json(roots: DataRoots, stored: StoredDataset) -> dict[str, Any]:
    """The fields of `DatasetOut`."""
    tables = roots.tables(stored)
    config = tables.config
    build = read_sidecar(stored, "build.json")
    tiers, tiers_of = _tiers(tables)
    return {
        **DatasetName.pick(vars(stored)),
        "form": tables.form,
        "counts": _counts(config),
        "splits": {split: len(tables[f"{split}_idx"]) for split in SPLITS},
        "steering_definition": config.steering_definition,
        "steering_probabilities": dict(config.steering_probabilities),
        "curriculum": dict(config.curriculum),
        "seed": config.random_seed,
        "encoder": _encoder(build),
        "has_texts": has_texts(stored, "questions"),
        "has_audit": read_sidecar(stored, "audit.json") is not None,
        "has_ledger": read_sidecar(stored, "ledger.json") is not None,
        "tiers": tiers,
        "tiers_of": tiers_of,
        "clusters": _clusters(roots, stored, tables),
    }


def _encoder(build: Any) -> str | None:
    encoder = build.get("encoder") if isinstance(build, dict) else None
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    return name if isinstance(name, str) else None


def _tiers(tables: Tables) -> tuple[dict[str, int], int]:
    import numpy as np

    stored = tables["negative_tiers"]
    counted = min(len(stored), MOST_COUNTED)
    rows = np.linspace(0, len(stored) - 1, counted).astype(np.int64)
    tiers, counts = np.unique(stored[rows], return_counts=True)
    by_tier = dict(zip(tiers.tolist(), counts.tolist(), strict=True))
    return {str(tier): int(by_tier.get(tier, 0)) for tier in (1, 2, 3, 4)}, counted


def _clusters(roots: DataRoots, stored: StoredDataset, tables: Tables) -> list[dict[str, Any]]:
    import numpy as np

    count = tables.config.n_clusters
    cluster_of = checked_ids(stored, tables, "pair_cluster_id", tables["pair_cluster_id"], count)
    owner = owners(roots, stored)
    # One pass counts by cluster and split; the owner is -1 for a pair in no split.
    both = np.bincount(cluster_of * 4 + owner + 1, minlength=4 * count).reshape(count, 4)
    distance = np.bincount(cluster_of, np.asarray(tables["centroid_distances"], np.float64), count)
    pairs = np.bincount(cluster_of, minlength=count)
    return [
        {
            "cluster": cluster,
            "pairs": {name: int(both[cluster, at + 1]) for at, name in enumerate(SPLITS)},
            "mean_distance": float(distance[cluster] / pairs[cluster]) if pairs[cluster] else None,
        }
        for cluster in range(min(count, MOST_CLUSTERS))
    ]


@lru_cache(MOST_CACHED)
def owners(roots: DataRoots, stored: StoredDataset) -> Ids:
    """The split of every pair: 0 train, 1 val, 2 test, −1 none."""
    import numpy as np

    tables = roots.tables(stored)
    owner = np.full(tables.config.n_pairs, -1, dtype=np.int8)
    for at, split in enumerate(SPLITS):
        name = f"{split}_idx"
        owner[checked_ids(stored, tables, name, tables[name], len(owner))] = at
    return owner


def split_name(owner: int) -> str | None:
    """The name of a split by its number; None for −1."""
    return SPLITS[owner] if owner >= 0 else None


def checked_ids(stored: StoredDataset, tables: Tables, name: str, ids: Any, below: int) -> Ids:
    """Ids that are valid row numbers; a 409 that names file and value if one is not."""
    import numpy as np

    checked: Ids = np.asarray(ids)
    # Python takes a negative id as an index from the end and would show another row.
    wrong = np.flatnonzero((checked < 0) | (checked >= below))
    if len(wrong):
        value = int(checked.reshape(-1)[wrong[0]])
        raise damaged(
            stored,
            f"{tables.label(name)} contains {value}, expected 0 to {below - 1}; "
            "`midstep data validate` names all problems",
        )
    return checked


def pairs_json(
    roots: DataRoots,
    stored: StoredDataset,
    *,
    split: str | None,
    cluster: int | None,
    offset: int,
    limit: int,
) -> dict[str, Any]:
    """The fields of `PairListOut`."""
    tables = roots.tables(stored)
    owner = owners(roots, stored)
    chosen = _select_pairs(tables, owner, split, cluster)
    shown = chosen[offset : offset + limit]
    lines = _lines(stored, tables, owner, shown)
    return {"pairs": lines, "offset": offset, "total": len(chosen)}


def _select_pairs(tables: Tables, owner: Ids, split: str | None, cluster: int | None) -> Any:
    import numpy as np

    if split is None and cluster is None:
        return range(tables.config.n_pairs)
    mask = np.ones(len(owner), dtype=bool) if split is None else owner == SPLITS.index(split)
    if cluster is not None:
        mask &= tables["pair_cluster_id"] == cluster
    return np.flatnonzero(mask)


def _lines(stored: StoredDataset, tables: Tables, owner: Ids, pairs: Any) -> list[dict[str, Any]]:
    questions = [int(tables["pair_index"][pair, 0]) for pair in pairs]
    texts = texts_of(stored, "questions", questions)
    return [
        {
            "pair": int(pair),
            "split": split_name(int(owner[pair])),
            "cluster": int(tables["pair_cluster_id"][pair]),
            "relevance": float(tables["pair_relevance"][pair]),
            "distance": float(tables["centroid_distances"][pair]),
            "question_id": question,
            "question": texts[question],
        }
        for pair, question in zip(pairs, questions, strict=True)
    ]
