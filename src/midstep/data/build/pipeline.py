"""`BuildPipeline`: the stages of a build, each computed or read from the cache when first used.

`stages` says what a stage computes; this module says on which settings and stages it depends.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.core.version import __version__
from midstep.data.build import stages
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.distinct_texts import DistinctTexts
from midstep.data.build.negative_tiers import MiningInputs
from midstep.data.build.stage_cache import StageCache, StageData
from midstep.data.text.encoders import Encoder, encoder_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    A property depends on the properties it reads, so using one runs the stages before it.

    Args:
        config: of the build.
        cache: keeps finished stages.
    """

    def __init__(self, config: BuildConfig, cache: StageCache) -> None:
        self.config, self.cache = config, cache

    @cached_property
    def rows(self) -> StageData:
        """The rows of all tables."""
        config = self.config
        settings = {name: getattr(config, name) for name in COLUMNS}
        settings["files"] = [_digest(path) for path in config.table_paths]
        return self.cache.stage("merge", settings, [], lambda: stages.merge_stage(config))

    @cached_property
    def texts(self) -> DistinctTexts:
        """Each text and each pair once."""
        rows = self.rows
        return stages.load_texts(
            self._stage("deduplicate", {}, "merge", lambda: stages.deduplicate_stage(rows))
        )

    @cached_property
    def vectors(self) -> StageData:
        """Vectors of questions, sources and keywords."""
        config, texts = self.config, self.texts
        if config.embeddings is not None:
            folder = Path(config.embeddings)
            paths = [*folder.glob("*.npy"), *folder.glob("keywords.txt")]
            files = {path.name: _digest(path) for path in sorted(paths)}
            rows = len(self.rows["questions"])
            return self._stage(
                "embed",
                {"given": files},
                "deduplicate",
                lambda: stages.read_given_vectors(folder, texts, rows),
            )
        return self._stage(
            "embed",
            {"encoder": self.encoder_name, "batch": config.batch_texts},
            "deduplicate",
            lambda: self._encode(encoder_from(config.encoder)),
        )

    @cached_property
    def encoder_name(self) -> str:
        """A name that tells encoders apart: changing it computes the vectors again."""
        if self.config.embeddings is not None:
            return "given"
        if isinstance(self.config.encoder, str):
            return self.config.encoder
        encoder = encoder_from(self.config.encoder)
        return f"{encoder.name} [{encoder.dimension}]"

    def _encode(self, encoder: Encoder) -> StageData:
        names = ("questions", "sources", "keywords")
        total, done = sum(len(getattr(self.texts, name)) for name in names), 0

        def part(name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
            nonlocal done
            vectors = self.cache.part("embed", name, make)
            done += len(vectors)
            self._advance("embed")(done, total)
            return vectors

        return {
            name: stages.embed_texts(
                encoder, getattr(self.texts, name), name, self.config.batch_texts, part
            )
            for name in names
        }

    @cached_property
    def split(self) -> Ids:
        """The split of each question: 0 train, 1 val, 2 test."""
        config, texts, vectors = self.config, self.texts, self.vectors
        settings = {
            "given": config.split_column,
            "ratios": dict(config.ratios),
            "together": config.keep_together,
            "near_duplicate": config.near_duplicate,
            "seed": config.seed,
        }
        data = self._stage(
            "split",
            settings,
            "embed",
            lambda: stages.split_stage(config, texts, vectors, self._advance("split")),
        )
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
        config, texts, vectors, split = self.config, self.texts, self.vectors, self.split
        settings = {
            "count": config.n_clusters,
            "adjacent": config.adjacent,
            "quantile": config.similar_quantile,
            "seed": config.seed,
        }
        return self._stage(
            "cluster",
            settings,
            "split",
            lambda: stages.cluster_stage(config, texts, vectors, split),
        )

    @cached_property
    def links(self) -> StageData:
        """The clusters of pairs and sources."""
        texts, vectors, clusters = self.texts, self.vectors, self.clusters
        return self._stage(
            "link", {}, "cluster", lambda: stages.link_stage(texts, vectors, clusters)
        )

    @cached_property
    def steering(self) -> StageData:
        """The steering vectors and centroid distances of pairs."""
        links = self.links
        return self._stage(
            "steering",
            {"definition": self.config.steering_definition},
            "link",
            lambda: stages.steering_stage(
                self.config, self.texts, self.vectors, self.clusters, links
            ),
        )

    @cached_property
    def mining_inputs(self) -> MiningInputs:
        """What mining reads."""
        return stages.collect_mining_inputs(self.texts, self.vectors, self.clusters, self.links)

    @cached_property
    def mined(self) -> StageData:
        """Negatives, tiers and shortages of pairs; see `MinedNegatives.to_stage`."""
        config, inputs = self.config, self.mining_inputs
        settings = {
            "quotas": [config.quotas[tier] for tier in sorted(config.quotas)],
            "margin": config.margin,
            "seed": config.seed,
        }
        return self._stage(
            "mine",
            settings,
            "link",
            lambda: stages.mine_stage(
                config, self.texts, inputs, self.split, self._advance("mine")
            ),
        )

    def _stage(
        self, name: str, settings: dict[str, Any], after: str, make: Callable[[], StageData]
    ) -> StageData:
        return self.cache.stage(name, settings, [after], make)

    def _advance(self, stage: str) -> stages.Advance:
        # A stage is finished when its data is on disk, not when the last of it is computed.
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


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
