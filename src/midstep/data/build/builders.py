"""Build a dataset from a table of texts: steering datasets, cluster-labelled datasets, triplets.

Each builder checks its inputs, runs the stages it needs, writes the dataset into the work folder
and renames it at the end, so that the result appears complete or not at all.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.core.field_checks import at_least, require
from midstep.core.files import storage
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.given_vectors import check_given_vectors
from midstep.data.build.leak_audit import audit_dataset
from midstep.data.build.negative_tiers import LISTED, MinedNegatives, negative_problems
from midstep.data.build.pipeline import BuildPipeline
from midstep.data.build.read_table import check_tables
from midstep.data.build.stage_cache import ReportProgress, StageCache
from midstep.data.cluster_labels.cluster_dataset_writer import ClusterSamples, write_cluster_dataset
from midstep.data.rag.rag_dataset import RAGDatasetBase, SampleKind
from midstep.data.rag.triplets import Corpus, write_triplets
from midstep.data.ragged import Ragged
from midstep.data.steering.dataset_checks import validate_dataset
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.dataset_writer import write_dataset
from midstep.data.steering.storage.layout import SPLITS, split_table
from midstep.data.text.encoders import check_encoder
from midstep.data.text.text_files import write_texts

Ids = NDArray[np.int64]


# -- checks before the first stage -----------------------------------------------------------------


def check_inputs(config: BuildConfig) -> None:
    """Check tables, vectors, encoder and form before a long table is read.

    Raises:
        ConfigError: if the encoder is unknown.
        DatasetError: if a table, a model or a file of vectors is missing or cannot be used.
        MissingExtraError: if the form or the encoder needs a package that is not installed.
    """
    if not config.out_folder.name:
        raise DatasetError(f"out is {str(config.out)!r}; name a new folder for the dataset")
    if config.form == "hdf5" and importlib.util.find_spec("h5py") is None:
        raise MissingExtraError.for_library("h5py", "data")
    if config.embeddings is None:
        check_encoder(config.encoder)
    else:
        check_given_vectors(Path(config.embeddings))
    check_tables(config)


def _run_build(
    kind: str,
    config: BuildConfig,
    progress: ReportProgress | None,
    write: Callable[[BuildPipeline, Path], Mapping[str, Any]],
) -> Path:
    """Check the inputs, write a dataset and its build.json, and rename the complete folder.

    Args:
        kind: names the kind of dataset in build.json.
        config: the settings of the build.
        progress: called with the progress of every stage.
        write: runs the stages that it needs, creates the given folder, writes the dataset into it,
            and returns what build.json says about this kind.
    """
    check_inputs(config)
    with StageCache.open(config.work_folder, progress, result=config.out_folder) as cache:
        pipeline = BuildPipeline(config, cache)
        with cache.result(config.out_folder) as folder:
            details = write(pipeline, folder)
            report = {**pipeline.build_report(kind), **details}
            storage.replace_json(folder / "build.json", report)
        cache.report("finalise", 1, 1)
    return config.out_folder


# -- a steering dataset ----------------------------------------------------------------------------


def build_dataset(config: BuildConfig, *, progress: ReportProgress | None = None) -> Path:
    """Build a steering dataset. Called again after an interruption, it continues.

    Args:
        config: table, encoder, split, clusters, negatives.
        progress: called with the progress of every stage.

    Returns:
        The folder, which appears complete or not at all.

    Raises:
        DatasetError: if no dataset can be built from the table, the vectors or the settings.
    """
    return _run_build("steering", config, progress, _write_steering)


def _write_steering(pipeline: BuildPipeline, folder: Path) -> dict[str, Any]:
    config = pipeline.config
    pipeline.steering  # noqa: B018 - a short stage; it runs before mining, the long one
    pairs = _complete_pairs(pipeline)
    tables = _tables(pipeline, pairs)
    pipeline.cache.report("validate", 0, 1)
    write_dataset(folder, tables, _dataset_config(config, tables), config.form)
    for name in ("questions", "sources", "keywords"):
        write_texts(folder, name, getattr(pipeline.texts, name))
    mined = MinedNegatives.from_stage(pipeline.mined, config.quotas, pairs)
    ledger = {**mined.ledger(), **_dropped_pairs(pipeline, pairs)}
    storage.replace_json(folder / "ledger.json", ledger)
    audit_dataset(folder, near_duplicate=config.near_duplicate, write=True)
    validate_dataset(folder)
    pipeline.cache.report("validate", 1, 1)
    clusters = pipeline.clusters
    fitted = {
        "n_clusters": len(clusters["centroids"]),
        "similar_threshold": clusters["threshold"],
    }
    return {"fitted": fitted, "splits": _split_counts(tables)}


def _complete_pairs(pipeline: BuildPipeline) -> Ids:
    """The pairs that have all their negatives, once these are checked against their definition."""
    negatives, tiers = pipeline.mined["negatives"], pipeline.mined["tiers"]
    is_complete = (negatives >= 0).all(axis=1)
    config = pipeline.config
    problems: list[str] = []
    for number, pool in enumerate(pipeline.pools):
        in_split = pipeline.pair_split == number
        pairs = np.flatnonzero(in_split & is_complete)
        if not len(pairs) and in_split.any():
            most = int((negatives[in_split] >= 0).sum(axis=1).max())
            raise DatasetError(_too_few_negatives(SPLITS[number], in_split, pool, most, config))
        problems += negative_problems(
            pipeline.mining_inputs, pairs, pool, negatives[pairs], tiers[pairs], config.margin
        )
    DatasetError.raise_if("the mined negatives break their own rules", problems)
    return np.flatnonzero(is_complete)


def _too_few_negatives(
    split: str, in_split: NDArray[np.bool_], pool: Ids, most: int, config: BuildConfig
) -> str:
    return (
        f"no pair of {split} finds {config.n_neg} negatives, the best finds {most}: it has "
        f"{np.count_nonzero(in_split)} pairs and {len(pool)} sources of its own, and a negative "
        f"must score at most {config.margin:.0%} of the answer; ask for fewer (n_neg, "
        f"--negatives), give {split} a larger share (ratios), raise the margin, or add sources"
    )


def _tables(pipeline: BuildPipeline, pairs: Ids) -> dict[str, Any]:
    """Every table of the layout, for these pairs."""
    texts, owner = pipeline.texts, pipeline.pair_split[pairs]
    return {
        **{split_table(name): np.flatnonzero(owner == at) for at, name in enumerate(SPLITS)},
        "question_embs": pipeline.vectors["questions"],
        "source_embs": pipeline.vectors["sources"],
        "keyword_embs": pipeline.vectors["keywords"],
        "centroid_embs": pipeline.clusters["centroids"],
        "pair_index": texts.pair_index[pairs],
        "pair_cluster_id": pipeline.links["pair_cluster"][pairs],
        "pair_relevance": texts.relevance[pairs],
        "pair_keyword_ids": Ragged.from_lists(
            [texts.keyword_ids[int(at)].tolist() for at in pairs]
        ),
        "hard_negatives": pipeline.mined["negatives"][pairs],
        "negative_tiers": pipeline.mined["tiers"][pairs],
        **{name: table[pairs] for name, table in pipeline.steering.items()},
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


def _split_counts(tables: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    counts = {}
    for name in SPLITS:
        pairs = tables["pair_index"][tables[split_table(name)]]
        counts[name] = {
            "pairs": len(pairs),
            "questions": len(np.unique(pairs[:, 0])),
            "sources": len(np.unique(pairs[:, 1])),
        }
    return counts


def _dropped_pairs(pipeline: BuildPipeline, pairs: Ids) -> dict[str, Any]:
    """The pairs without all their negatives, for ledger.json."""
    dropped = np.setdiff1d(np.arange(len(pipeline.pair_split)), pairs)
    listed = [
        {
            "question": int(pipeline.texts.pair_index[pair, 0]),
            "source": int(pipeline.texts.pair_index[pair, 1]),
            "split": SPLITS[pipeline.pair_split[pair]],
            "found": int(np.count_nonzero(pipeline.mined["negatives"][pair] >= 0)),
        }
        for pair in dropped[:LISTED]
    ]
    return {"dropped": len(dropped), "dropped_pairs": listed}


# -- a cluster-labelled dataset --------------------------------------------------------------------


def build_cluster_dataset(config: BuildConfig, *, progress: ReportProgress | None = None) -> Path:
    """Build cluster-labelled datasets: a folder with one dataset each for train, val and test.

    A sample is a pair. Its source is classified, its keywords are the suggestion terms, and its
    keyword vector is the steering vector. The clusters are those of the training split.

    Args:
        config: as for a steering dataset; the settings of negatives are not used.
        progress: called with the progress of every stage.
    """
    return _run_build("cluster", config, progress, _write_cluster)


def _write_cluster(pipeline: BuildPipeline, folder: Path) -> dict[str, Any]:
    pipeline.steering  # noqa: B018 - the last stage that is needed
    counts = {}
    folder.mkdir()
    for number, split in enumerate(SPLITS):
        pairs = np.flatnonzero(pipeline.pair_split == number)
        if len(pairs):
            write_cluster_dataset(folder / split, _cluster_samples(pipeline, pairs))
            counts[split] = len(pairs)
    return {"fitted": {"n_clusters": len(pipeline.clusters["centroids"])}, "samples": counts}


def _cluster_samples(pipeline: BuildPipeline, pairs: Ids) -> ClusterSamples:
    texts = pipeline.texts
    question, source = texts.pair_index[pairs].T
    return ClusterSamples(
        base_embeddings=pipeline.vectors["sources"][source],
        steering_embeddings=pipeline.steering["steering_keyword_weighted"][pairs],
        centroids=pipeline.clusters["centroids"],
        suggestion_embeddings=pipeline.vectors["keywords"],
        suggestions=[texts.keyword_ids[int(pair)].tolist() for pair in pairs],
        suggestion_terms=texts.keywords,
        texts=[texts.sources[int(each)] for each in source],
        metadata=[
            {"pair": int(pair), "question": texts.questions[int(each)]}
            for pair, each in zip(pairs, question, strict=True)
        ],
    )


# -- triplets --------------------------------------------------------------------------------------


def build_triplets(
    config: BuildConfig,
    *,
    samples: SampleKind = "contrastive",
    k: int = 5,
    progress: ReportProgress | None = None,
) -> Path:
    """Build triplets: train.jsonl, val.jsonl, test.jsonl, and the texts of their ids.

    Question q7 is row 7 of texts/questions.jsonl, source s7 row 7 of texts/sources.jsonl.

    Args:
        config: as for a steering dataset; the settings of clusters and negatives are not used.
        samples: `positive`, `contrastive` or `similar`.
        k: how many wrong or similar sources a triplet is made with.
        progress: called with the progress of every stage.
    """
    require(at_least("k", k, 1))
    return _run_build("triplets", config, progress, partial(_write_triplets, samples=samples, k=k))


def _write_triplets(
    pipeline: BuildPipeline, folder: Path, *, samples: SampleKind, k: int
) -> dict[str, Any]:
    pipeline.split  # noqa: B018 - the last stage that is needed
    counts = {}
    folder.mkdir()
    for number, split in enumerate(SPLITS):
        dataset = _SplitPassages(pipeline, number)
        if len(dataset.questions):
            triplets = dataset.generate_samples(samples, k=k)
            counts[split] = write_triplets(folder / f"{split}.jsonl", triplets)
    if not sum(counts.values()):
        raise DatasetError(
            f"no {samples} triplet can be built: positive ones need questions with two answers, "
            "contrastive ones need sources that are not an answer; try another kind"
        )
    for name in ("questions", "sources"):
        write_texts(folder, name, getattr(pipeline.texts, name))
    return {"samples": samples, "k": k, "triplets": counts}


class _SplitPassages(RAGDatasetBase):
    """The questions of one split over its own sources."""

    def __init__(self, pipeline: BuildPipeline, number: int) -> None:
        super().__init__(seed=pipeline.config.seed)
        self._pipeline, self._pool = pipeline, pipeline.pools[number]
        self.questions = np.unique(pipeline.texts.pair_index[pipeline.pair_split == number, 0])

    def load(self) -> Corpus:
        """Take texts and vectors from the stages, and fill the store."""
        texts, vectors = self._pipeline.texts, self._pipeline.vectors
        sources = {f"s{row}": texts.sources[row] for row in self._pool.tolist()}
        self.store.add(list(sources), vectors["sources"][self._pool], list(sources.values()))
        positives: Any = texts.positives()
        return Corpus(
            questions={f"q{row}": texts.questions[row] for row in self.questions.tolist()},
            question_embeddings=vectors["questions"][self.questions],
            sources=sources,
            relevant={
                f"q{row}": tuple(f"s{each}" for each in positives[row].tolist())
                for row in self.questions.tolist()
            },
        )
