"""The stages of a build in the order they need each other; made, or read, when asked for."""

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
from midstep.data.build.config import BuildConfig
from midstep.data.build.distinct import Distinct
from midstep.data.build.encoders import Encoder, encoder_from
from midstep.data.build.tiers import Field
from midstep.data.build.workshop import Pieces, Workshop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["Assembly"]

FORMAT = 1
COLUMNS = (
    "question_column",
    "source_column",
    "relevance_column",
    "keywords_column",
    "keyword_separator",
    "split_column",
)


class Assembly:
    """What the stages of one build made.

    Args:
        config: of the build.
        shop: keeps finished stages.
    """

    def __init__(self, config: BuildConfig, shop: Workshop) -> None:
        self.config, self.shop = config, shop

    @cached_property
    def rows(self) -> Pieces:
        """The rows of all tables."""
        config = self.config
        settings = {name: getattr(config, name) for name in COLUMNS}
        settings["files"] = [_digest(path) for path in config.table_paths]
        return self.shop.stage("merge", settings, [], lambda: stages.merge_stage(config))

    @cached_property
    def texts(self) -> Distinct:
        """Each text and each pair once."""
        rows = self.rows
        made = self.shop.stage("deduplicate", {}, ["merge"], lambda: stages.deduplicate_stage(rows))
        return stages.texts_of(made)

    @cached_property
    def vectors(self) -> Pieces:
        """Of questions, sources and keywords."""
        config, texts = self.config, self.texts
        if config.embeddings is not None:
            folder = Path(config.embeddings)
            found = [*folder.glob("*.npy"), *folder.glob("keywords.txt")]
            files = {path.name: _digest(path) for path in sorted(found)}
            rows = len(self.rows["questions"])
            return self._stage(
                "embed",
                {"given": files},
                "deduplicate",
                lambda: stages.given_vectors(folder, texts, rows),
            )
        return self._stage(
            "embed",
            {"encoder": self.encoder_name, "batch": config.batch_texts},
            "deduplicate",
            lambda: self._encoded(encoder_from(config.encoder)),
        )

    @cached_property
    def encoder_name(self) -> str:
        """What tells one encoder from another: its name and width."""
        if self.config.embeddings is not None:
            return "given"
        if isinstance(self.config.encoder, str):
            return self.config.encoder
        encoder = encoder_from(self.config.encoder)
        return f"{encoder.name} [{encoder.dimension}]"

    def _encoded(self, encoder: Encoder) -> Pieces:
        names = ("questions", "sources", "keywords")
        total, done = sum(len(getattr(self.texts, name)) for name in names), 0

        def part(name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
            nonlocal done
            made = self.shop.part("embed", name, make)
            done += len(made)
            self._advance("embed")(done, total)
            return made

        return {
            name: stages.embed_texts(
                encoder, getattr(self.texts, name), name, self.config.batch_texts, part
            )
            for name in names
        }

    @cached_property
    def split(self) -> Ids:
        """Of each question: 0 train, 1 val, 2 test."""
        config, texts, vectors = self.config, self.texts, self.vectors
        settings = {
            "given": config.split_column,
            "ratios": dict(config.ratios),
            "together": config.keep_together,
            "near_duplicate": config.near_duplicate,
            "seed": config.seed,
        }
        made = self._stage(
            "split",
            settings,
            "embed",
            lambda: stages.split_stage(config, texts, vectors, self._advance("split")),
        )
        return np.asarray(made["split"], dtype=np.int64)

    @cached_property
    def pair_split(self) -> Ids:
        """Of each pair."""
        return np.asarray(self.split[self.texts.pair_index[:, 0]])

    @cached_property
    def pools(self) -> list[Ids]:
        """The sources of each split."""
        return stages.pools(self.texts, self.split)

    @cached_property
    def clusters(self) -> Pieces:
        """Centroids, neighbours and threshold of the training split."""
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
    def links(self) -> Pieces:
        """The clusters of pairs and sources."""
        texts, vectors, clusters = self.texts, self.vectors, self.clusters
        return self._stage(
            "link", {}, "cluster", lambda: stages.link_stage(texts, vectors, clusters)
        )

    @cached_property
    def steering(self) -> Pieces:
        """The steering vectors and distances of pairs."""
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
    def field(self) -> Field:
        """All that mining looks at."""
        return stages.field_of(self.texts, self.vectors, self.clusters, self.links)

    @cached_property
    def mined(self) -> Pieces:
        """Negatives, tiers and shortages of pairs."""
        config, field = self.config, self.field
        settings = {
            "quotas": [config.quotas[tier] for tier in sorted(config.quotas)],
            "margin": config.margin,
            "seed": config.seed,
        }
        return self._stage(
            "mine",
            settings,
            "link",
            lambda: stages.mine_stage(config, self.texts, field, self.split, self._advance("mine")),
        )

    def _stage(
        self, name: str, settings: dict[str, Any], after: str, make: Callable[[], Pieces]
    ) -> Pieces:
        return self.shop.stage(name, settings, [after], make)

    def _advance(self, stage: str) -> stages.Advance:
        # A stage is finished when its pieces are on disk, not when the last one is computed.
        return lambda done, total: self.shop.tell(stage, min(done, total - 1), total)

    def told(self, kind: str) -> dict[str, Any]:
        """What build.json says of any kind of dataset."""
        return {
            "format": FORMAT,
            "kind": kind,
            "config": self.config.described(),
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
            "seconds": {name: round(each, 3) for name, each in self.shop.seconds.items()},
        }


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
