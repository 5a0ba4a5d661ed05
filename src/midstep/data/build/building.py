"""From a table of texts to a dataset: the stages, the last look, and the folder at the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core import storage
from midstep.core.errors import DatasetError
from midstep.data.build.assembly import Assembly
from midstep.data.build.audit import audit_dataset
from midstep.data.build.beginning import check_beginning
from midstep.data.build.checking import negative_problems, validate_dataset
from midstep.data.build.config import BuildConfig
from midstep.data.build.filling import LISTED, Filled
from midstep.data.build.sidecars import write_texts
from midstep.data.build.workshop import Tell, Workshop
from midstep.data.embedding.config import DatasetConfig
from midstep.data.embedding.layout import SPLITS, Ragged, split_table
from midstep.data.embedding.writing import write_dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["build_dataset", "workshop_of"]


def build_dataset(config: BuildConfig, *, progress: Tell | None = None) -> Path:
    """Build a steering dataset; begun again after an interruption, it goes on where it stood.

    Args:
        config: table, encoder, split, clusters, negatives.
        progress: told where the build stands.

    Returns:
        The folder, which appears whole or not at all.

    Raises:
        DatasetError: if the table, the vectors or the settings cannot make a dataset.
    """
    with workshop_of(config, progress) as shop:
        made = Assembly(config, shop)
        made.steering  # noqa: B018 - a stage of its own, before the long one
        kept = _kept(made)
        tables = _tables(made, kept)
        shop.tell("validate", 0, 1)
        with shop.result(config.out_folder) as folder:
            write_dataset(folder, tables, _dataset_config(config, tables), config.form)
            _write_sidecars(folder, made, tables, kept)
            validate_dataset(folder)
            shop.tell("validate", 1, 1)
        shop.tell("finalise", 1, 1)
    return config.out_folder


def workshop_of(config: BuildConfig, progress: Tell | None) -> AbstractContextManager[Workshop]:
    """The workshop of a build, unless something is amiss that can be known by now."""
    if not config.out_folder.name:
        raise DatasetError(f"out is {str(config.out)!r}; name a new folder for the dataset")
    check_beginning(config)
    return Workshop.open(config.work_folder, progress, result=config.out_folder)


def _kept(made: Assembly) -> Ids:
    """The pairs with all their negatives, every promise about these checked."""
    negatives, tiers = made.mined["negatives"], made.mined["tiers"]
    whole = (negatives >= 0).all(axis=1)
    problems: list[str] = []
    for number, pool in enumerate(made.pools):
        inside = made.pair_split == number
        pairs = np.flatnonzero(inside & whole)
        if not len(pairs) and inside.any():
            most = int((negatives[inside] >= 0).sum(axis=1).max())
            raise DatasetError(_too_few(SPLITS[number], inside, pool, most, made.config))
        problems += negative_problems(
            made.field, pairs, pool, negatives[pairs], tiers[pairs], made.config.margin
        )
    if problems:
        raise DatasetError("the negatives do not hold what they promise", problems)
    return np.flatnonzero(whole)


def _too_few(
    split: str, inside: NDArray[np.bool_], pool: Ids, most: int, config: BuildConfig
) -> str:
    return (
        f"no pair of {split} finds {config.n_neg} negatives, the best finds {most}: it has "
        f"{np.count_nonzero(inside)} pairs and {len(pool)} sources of its own, and a negative must "
        f"score at most {config.margin:.0%} of the answer; ask for fewer (n_neg, --negatives), "
        f"give {split} a larger share (ratios), raise the margin, or bring more sources"
    )


def _tables(made: Assembly, kept: Ids) -> dict[str, Any]:
    """Every table of the layout, for the pairs that are kept."""
    texts, owner = made.texts, made.pair_split[kept]
    return {
        **{split_table(name): np.flatnonzero(owner == at) for at, name in enumerate(SPLITS)},
        "question_embs": made.vectors["questions"],
        "source_embs": made.vectors["sources"],
        "keyword_embs": made.vectors["keywords"],
        "centroid_embs": made.clusters["centroids"],
        "pair_index": texts.pair_index[kept],
        "pair_cluster_id": made.links["pair_cluster"][kept],
        "pair_relevance": texts.relevance[kept],
        "pair_keyword_ids": Ragged.of([texts.keyword_ids[int(at)].tolist() for at in kept]),
        "hard_negatives": made.mined["negatives"][kept],
        "negative_tiers": made.mined["tiers"][kept],
        **{name: table[kept] for name, table in made.steering.items()},
    }


def _dataset_config(config: BuildConfig, tables: Mapping[str, Any]) -> DatasetConfig:
    return DatasetConfig(
        embedding_dim=tables["question_embs"].shape[1],
        n_neg=config.n_neg,
        n_pairs=len(tables["pair_index"]),
        n_questions=len(tables["question_embs"]),
        n_sources=len(tables["source_embs"]),
        n_keywords=len(tables["keyword_embs"]),
        n_clusters=len(tables["centroid_embs"]),
        steering_probabilities=dict(config.steering_probabilities),
        random_seed=config.seed,
        split_ratios=dict(config.ratios),
        curriculum=dict(config.curriculum),
        steering_definition=config.steering_definition,
    )


def _write_sidecars(folder: Path, made: Assembly, tables: Mapping[str, Any], kept: Ids) -> None:
    """Texts, ledger, account of the build, audit."""
    for name in ("questions", "sources", "keywords"):
        write_texts(folder, name, getattr(made.texts, name))
    some = {name: table[kept] for name, table in made.mined.items()}
    ledger = Filled(quotas=made.config.quotas, **some).ledger()
    storage.replace_json(folder / "ledger.json", {**ledger, **_dropped(made, kept)})
    fitted = {
        "n_clusters": len(made.clusters["centroids"]),
        "similar_threshold": made.clusters["threshold"],
    }
    told = {**made.told("steering"), "fitted": fitted, "splits": _splits(tables)}
    storage.replace_json(folder / "build.json", told)
    audit_dataset(folder, near_duplicate=made.config.near_duplicate, write=True)


def _splits(tables: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    told = {}
    for name in SPLITS:
        pairs = tables["pair_index"][tables[split_table(name)]]
        told[name] = {
            "pairs": len(pairs),
            "questions": len(np.unique(pairs[:, 0])),
            "sources": len(np.unique(pairs[:, 1])),
        }
    return told


def _dropped(made: Assembly, kept: Ids) -> dict[str, Any]:
    """The pairs that could not get all their negatives, for the ledger."""
    gone = np.setdiff1d(np.arange(len(made.pair_split)), kept)
    listed = [
        {
            "question": int(made.texts.pair_index[pair, 0]),
            "source": int(made.texts.pair_index[pair, 1]),
            "split": SPLITS[made.pair_split[pair]],
            "found": int(np.count_nonzero(made.mined["negatives"][pair] >= 0)),
        }
        for pair in gone[:LISTED]
    ]
    return {"dropped": len(gone), "dropped_pairs": listed}
