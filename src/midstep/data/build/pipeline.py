"""`BuildPipeline`: the stages of a build, each computed or read from the cache when first used.

`stages` says what a stage computes; this module says on which settings and stages it depends.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.version import __version__
from midstep.data.build import stages
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.distinct_texts import DistinctTexts
from midstep.data.build.negative_tiers import MiningInputs
from midstep.data.build.stage_cache import StageCache, StageData
from midstep.data.steering.storage.file_hashes import hash_file
from midstep.data.text.encoders import encoder_from

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
        return self.cache.stage("merge", settings, None, stages.merge_stage, self.config)

    @cached_property
    def texts(self) -> DistinctTexts:
        """Each text and each pair once."""
        data = self.cache.stage("deduplicate", {}, "merge", stages.deduplicate_stage, self.rows)
        return stages.load_texts(data)

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
            stages.read_given_vectors,
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
        encoder = encoder_from(self.config.encoder)
        texts = {name: getattr(self.texts, name) for name in ("questions", "sources", "keywords")}
        total, done = sum(map(len, texts.values())), 0

        def part(name: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
            nonlocal done
            vectors = self.cache.part("embed", name, compute)
            done += len(vectors)
            self._advance("embed")(done, total)
            return vectors

        batch = self.config.batch_texts
        return {
            name: stages.embed_texts(encoder, some, name, batch, part)
            for name, some in texts.items()
        }

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
        data = self.cache.stage("split", settings, "embed", stages.split_stage, *arguments)
        return np.asarray(data["split"], dtype=np.int64)

    @cached_property
    def pair_split(self) -> Ids:
        """The split of each pair."""
        return np.asarray(self.split[self.texts.pair_index[:, 0]])

    @cached_property
    def pools(self) -> list[Ids]:
        """The sources of each split."""
        return stages.source_pools(self.texts, self.split)

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
        return self.cache.stage("cluster", settings, "split", stages.cluster_stage, *arguments)

    @cached_property
    def links(self) -> StageData:
        """The clusters of pairs and sources."""
        arguments = (self.texts, self.vectors, self.clusters)
        return self.cache.stage("link", {}, "cluster", stages.link_stage, *arguments)

    @cached_property
    def steering(self) -> StageData:
        """The steering vectors and centroid distances of pairs."""
        settings = {"definition": self.config.steering_definition}
        arguments = (self.config, self.texts, self.vectors, self.clusters, self.links)
        return self.cache.stage("steering", settings, "link", stages.steering_stage, *arguments)

    @cached_property
    def mining_inputs(self) -> MiningInputs:
        """What mining reads."""
        return stages.collect_mining_inputs(self.texts, self.vectors, self.clusters, self.links)

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
        return self.cache.stage("mine", settings, "link", stages.mine_stage, *arguments)

    def _advance(self, stage: str) -> stages.Advance:
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


def _hash_input(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
