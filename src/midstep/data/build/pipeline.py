"""`BuildPipeline`: the stages of a build, each computed or read from the cache when first used.

The class says on which settings and stages a stage depends. The functions below it say what a stage
computes; they are pure but for the files they read.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.version import __version__
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.clustering import (
    adjacent_clusters,
    cluster_count,
    fit_clusters,
    nearest_clusters,
    similar_threshold,
)
from midstep.data.build.distinct_texts import DistinctTexts, deduplicate
from midstep.data.build.given_vectors import read_given_vectors
from midstep.data.build.hard_negatives import mine_hard_negatives
from midstep.data.build.negative_tiers import MinedNegatives, MiningInputs
from midstep.data.build.read_table import Rows, read_rows
from midstep.data.build.splits import check_split, question_groups, split_groups
from midstep.data.build.stage_cache import StageCache, StageData
from midstep.data.exact_search import unit_rows
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.file_hashes import hash_file
from midstep.data.steering.storage.layout import SPLITS
from midstep.data.steering.vectors import steering_tables
from midstep.data.text.encoders import encode_checked, encoder_from

Ids = NDArray[np.int64]

FORMAT = 1
COLUMNS = (
    "question_column",
    "source_column",
    "relevance_column",
    "keywords_column",
    "keyword_separator",
    "split_column",
)
Advance = Callable[[int, int], None]
"""Called with how much is done, of how much."""
SAMPLED_POINTS = 4096
"""Rows among which distinct vectors are counted: there cannot be more clusters than these."""
MOST_STRATA = 32


class BuildPipeline:
    """The results of the stages of one build.

    A property depends on the properties it reads, so using one runs the stages before it. The
    arguments of a stage are read before the stage starts, so its measured time is its own.

    Args:
        config: of the build.
        cache: keeps finished stages.
    """

    def __init__(self, config: BuildConfig, cache: StageCache) -> None:
        self.config, self.cache = config, cache

    @cached_property
    def rows(self) -> StageData:
        """The rows of all tables."""
        settings = {name: getattr(self.config, name) for name in COLUMNS}
        settings["files"] = [_hash_input(path) for path in self.config.table_paths]
        return self.cache.stage("merge", settings, None, lambda: asdict(read_rows(self.config)))

    @cached_property
    def texts(self) -> DistinctTexts:
        """Each text and each pair once."""
        data = self.cache.stage("deduplicate", {}, "merge", deduplicate_stage, self.rows)
        keyword_ids = Ragged(data.pop("keyword_offsets"), data.pop("keyword_values"))
        return DistinctTexts(**data, keyword_ids=keyword_ids)

    @cached_property
    def vectors(self) -> StageData:
        """Vectors of questions, sources and keywords."""
        config, texts = self.config, self.texts
        if config.embeddings is None:
            settings = {"encoder": self.encoder_name, "batch": config.batch_texts}
            return self.cache.stage("embed", settings, "deduplicate", self._encode)
        folder = Path(config.embeddings)
        paths = sorted([*folder.glob("*.npy"), *folder.glob("keywords.txt")])
        return self.cache.stage(
            "embed",
            {"given": {path.name: _hash_input(path) for path in paths}},
            "deduplicate",
            read_given_vectors,
            folder,
            texts,
            len(self.rows["questions"]),
        )

    @cached_property
    def encoder_name(self) -> str:
        """Identifies the encoder: if the name changes, the vectors are computed again."""
        if self.config.embeddings is not None:
            return "given"
        if isinstance(self.config.encoder, str):
            return self.config.encoder
        encoder = encoder_from(self.config.encoder)
        return f"{encoder.name} [{encoder.dimension}]"

    def _encode(self) -> StageData:
        """Encode all texts batch by batch; the cache keeps finished batches."""
        encoder, batch = encoder_from(self.config.encoder), self.config.batch_texts
        texts = {name: getattr(self.texts, name) for name in ("questions", "sources", "keywords")}
        advance, total, done = self._advance("embed"), sum(map(len, texts.values())), 0
        vectors = {}
        for name, some in texts.items():
            vectors[name] = np.zeros((len(some), encoder.dimension), dtype=np.float32)
            for start in range(0, len(some), batch):
                encode = partial(encode_checked, encoder, some[start : start + batch])
                rows = self.cache.part("embed", f"{name}-{start}", encode)
                vectors[name][start : start + batch] = rows
                done += len(rows)
                advance(done, total)
        return vectors

    @cached_property
    def split(self) -> Ids:
        """The split of each question: 0 train, 1 val, 2 test."""
        config = self.config
        settings = {
            "given": config.split_column,
            "ratios": dict(config.ratios),
            "together": config.keep_together,
            "near_duplicate": config.near_duplicate,
            "seed": config.seed,
        }
        arguments = (config, self.texts, self.vectors, self._advance("split"))
        data = self.cache.stage("split", settings, "embed", split_stage, *arguments)
        return np.asarray(data["split"], dtype=np.int64)

    @cached_property
    def pair_split(self) -> Ids:
        """The split of each pair."""
        return np.asarray(self.split[self.texts.pair_index[:, 0]])

    @cached_property
    def pools(self) -> list[Ids]:
        """The sources of each split."""
        return source_pools(self.texts, self.split)

    @cached_property
    def clusters(self) -> StageData:
        """Centroids, adjacent clusters and similarity threshold of the training split."""
        config = self.config
        settings = {
            "count": config.n_clusters,
            "adjacent": config.adjacent,
            "quantile": config.similar_quantile,
            "seed": config.seed,
        }
        arguments = (config, self.texts, self.vectors, self.split)
        return self.cache.stage("cluster", settings, "split", cluster_stage, *arguments)

    @cached_property
    def links(self) -> StageData:
        """The clusters of pairs and sources."""
        arguments = (self.texts, self.vectors, self.clusters)
        return self.cache.stage("link", {}, "cluster", link_stage, *arguments)

    @cached_property
    def steering(self) -> StageData:
        """The steering vectors and centroid distances of pairs."""
        settings = {"definition": self.config.steering_definition}
        arguments = (self.config, self.texts, self.vectors, self.clusters, self.links)
        return self.cache.stage("steering", settings, "link", steering_stage, *arguments)

    @cached_property
    def mining_inputs(self) -> MiningInputs:
        """What mining reads."""
        return collect_mining_inputs(self.texts, self.vectors, self.clusters, self.links)

    @cached_property
    def mined(self) -> StageData:
        """Negatives, tiers and shortages of pairs; see `MinedNegatives.to_stage`."""
        config = self.config
        settings = {
            "quotas": [config.quotas[tier] for tier in sorted(config.quotas)],
            "margin": config.margin,
            "seed": config.seed,
        }
        arguments = (config, self.texts, self.mining_inputs, self.split, self._advance("mine"))
        return self.cache.stage("mine", settings, "link", mine_stage, *arguments)

    def _advance(self, stage: str) -> Advance:
        # At most total - 1: a stage is finished when its data is on disk, and the cache reports it.
        return lambda done, total: self.cache.report(stage, min(done, total - 1), total)

    def build_report(self, kind: str) -> dict[str, Any]:
        """The content of build.json that all kinds of datasets share."""
        return {
            "format": FORMAT,
            "kind": kind,
            "config": self.config.to_json(),
            "encoder": {
                "name": self.encoder_name,
                "dimension": int(self.vectors["questions"].shape[1]),
            },
            "dropped_rows": self.texts.dropped_rows,
            "versions": {
                "midstep": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("numpy", "torch")},
            },
            "seconds": {name: round(each, 3) for name, each in self.cache.seconds.items()},
        }


# -- what the stages compute -----------------------------------------------------------------------


def _hash_input(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error


def deduplicate_stage(rows: StageData) -> StageData:
    """Keep each text and each pair once."""
    texts = deduplicate(Rows(**rows))
    data = dict(vars(texts))
    ids = data.pop("keyword_ids")
    return {**data, "keyword_offsets": ids.offsets, "keyword_values": ids.values}


def split_stage(
    config: BuildConfig, texts: DistinctTexts, vectors: Mapping[str, Any], advance: Advance
) -> StageData:
    """The split of each question: as the table says, or by groups and strata."""
    if config.split_column is not None:
        groups = np.arange(len(texts.questions), dtype=np.int64)
        check_split(texts.given_split, groups, {**config.ratios, "val": 0.0, "test": 0.0})
        return {"split": texts.given_split}
    questions, sources = unit_rows(vectors["questions"]), unit_rows(vectors["sources"])
    groups = question_groups(
        texts,
        questions,
        sources,
        together=config.keep_together,
        near_duplicate=config.near_duplicate,
        advance=advance,
    )
    # These clusters only say which questions are alike, so that every split gets some of each.
    # They are dropped: the dataset's own clusters are fitted on the training split alone, or val
    # and test would leak into training.
    distinct = len(np.unique(questions[:SAMPLED_POINTS], axis=0))
    count = min(distinct, MOST_STRATA, cluster_count(len(questions)))
    strata = nearest_clusters(questions, fit_clusters(questions, count, config.seed))
    split = split_groups(groups, strata, config.ratios, config.seed)
    check_split(split, groups, config.ratios)
    return {"split": split}


def source_pools(texts: DistinctTexts, split: Ids) -> list[Ids]:
    """The sources of each split: those that share a row of the tables with its questions."""
    rows = np.concatenate([texts.pair_index, texts.irrelevant])
    owner = split[rows[:, 0]]
    return [np.unique(rows[owner == number, 1]) for number in range(len(SPLITS))]


def cluster_stage(
    config: BuildConfig, texts: DistinctTexts, vectors: Mapping[str, Any], split: Ids
) -> StageData:
    """Fit centroids, adjacent clusters and the similarity threshold on the training split only.

    A clustered point is the direction half way between the question and the source of a pair.
    """
    pairs = texts.pair_index[split[texts.pair_index[:, 0]] == 0]
    if not len(pairs):
        raise DatasetError(
            "the training split has no pair, so no cluster can be fitted; give train a larger share"
        )
    points = unit_rows(
        unit_rows(vectors["questions"][pairs[:, 0]]) + unit_rows(vectors["sources"][pairs[:, 1]])
    )
    count = config.n_clusters
    if count is None:
        count = min(cluster_count(len(pairs)), len(np.unique(points[:SAMPLED_POINTS], axis=0)))
    centroids = fit_clusters(points, count, config.seed)
    questions = unit_rows(vectors["questions"][np.unique(pairs[:, 0])])
    sources = unit_rows(vectors["sources"][source_pools(texts, split)[0]])
    threshold = similar_threshold(questions, sources, config.similar_quantile, config.seed)
    return {
        "centroids": centroids,
        "adjacent": adjacent_clusters(centroids, config.adjacent),
        "threshold": threshold,
    }


def link_stage(
    texts: DistinctTexts, vectors: Mapping[str, Any], clusters: Mapping[str, Any]
) -> StageData:
    """The cluster of each pair (by its question) and of each source: the nearest centroid."""
    questions = nearest_clusters(unit_rows(vectors["questions"]), clusters["centroids"])
    sources = nearest_clusters(unit_rows(vectors["sources"]), clusters["centroids"])
    return {"pair_cluster": questions[texts.pair_index[:, 0]], "source_cluster": sources}


def steering_stage(
    config: BuildConfig,
    texts: DistinctTexts,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> StageData:
    """The three steering vectors and the centroid distance of each pair."""
    tables = steering_tables(
        vectors["questions"][texts.pair_index[:, 0]],
        clusters["centroids"][links["pair_cluster"]],
        vectors["keywords"],
        texts.keyword_ids,
        definition=config.steering_definition,
    )
    return dict(tables)


def collect_mining_inputs(
    texts: DistinctTexts,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> MiningInputs:
    """What mining reads."""
    return MiningInputs(
        questions=unit_rows(vectors["questions"]),
        sources=unit_rows(vectors["sources"]),
        pair_index=texts.pair_index,
        pair_cluster=links["pair_cluster"],
        source_cluster=links["source_cluster"],
        adjacent=clusters["adjacent"],
        positives=texts.positives(),
        threshold=clusters["threshold"],
    )


def mine_stage(
    config: BuildConfig, texts: DistinctTexts, inputs: MiningInputs, split: Ids, advance: Advance
) -> StageData:
    """Negatives of each pair, from the sources of its split."""
    owner = split[texts.pair_index[:, 0]]
    mined = MinedNegatives.empty(len(owner), config.quotas)
    for number, pool in enumerate(source_pools(texts, split)):
        pairs = np.flatnonzero(owner == number)
        before = int(np.count_nonzero(owner < number))
        block = mine_hard_negatives(
            inputs,
            pairs,
            pool,
            quotas=config.quotas,
            margin=config.margin,
            seed=config.seed,
            advance=partial(_advance_from, advance, before, len(owner)),
        )
        mined.set_rows(pairs, block)
    return mined.to_stage()


def _advance_from(advance: Advance, before: int, total: int, done: int) -> None:
    advance(before + done, total)
