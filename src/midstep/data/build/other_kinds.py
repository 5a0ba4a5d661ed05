"""The other kinds of dataset from the same stages: cluster labels, triplets.

Both are written split by split, so that what a split holds never comes from another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core import storage
from midstep.core.errors import ConfigError, DatasetError
from midstep.data.build.assembly import Assembly
from midstep.data.build.building import workshop_of
from midstep.data.build.config import BuildConfig
from midstep.data.build.sidecars import write_texts
from midstep.data.build.workshop import Tell
from midstep.data.embedding.cluster_labeled_writing import ClusterSamples, write_cluster_dataset
from midstep.data.embedding.layout import SPLITS
from midstep.data.rag.base import RAGDatasetBase, SampleKind
from midstep.data.rag.corpus import Corpus
from midstep.data.rag.triplets import write_triplets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["build_cluster_dataset", "build_triplets"]


def build_cluster_dataset(config: BuildConfig, *, progress: Tell | None = None) -> Path:
    """Build cluster-labelled datasets: a folder with one each for train, val and test.

    A sample is a pair: its source is what is classified, its keywords are the suggestion terms, its
    keyword vector steers. Clusters are those of the training split.

    Args:
        config: as for a steering dataset; what it says of negatives is not used.
        progress: told where the build stands.
    """
    with workshop_of(config, progress) as shop:
        made = Assembly(config, shop)
        made.steering  # noqa: B018 - the last stage that is needed
        counts = {}
        with shop.result(config.out_folder) as folder:
            folder.mkdir()
            for number, split in enumerate(SPLITS):
                pairs = np.flatnonzero(made.pair_split == number)
                if len(pairs):
                    write_cluster_dataset(folder / split, _samples(made, pairs))
                    counts[split] = len(pairs)
            fitted = {"n_clusters": len(made.clusters["centroids"])}
            told = {**made.told("cluster"), "fitted": fitted, "samples": counts}
            storage.replace_json(folder / "build.json", told)
        shop.tell("finalise", 1, 1)
    return config.out_folder


def _samples(made: Assembly, pairs: Ids) -> ClusterSamples:
    texts = made.texts
    question, source = texts.pair_index[pairs].T
    return ClusterSamples(
        base_embeddings=made.vectors["sources"][source],
        steering_embeddings=made.steering["steering_keyword_weighted"][pairs],
        centroids=made.clusters["centroids"],
        suggestion_embeddings=made.vectors["keywords"],
        suggestions=[texts.keyword_ids[int(pair)].tolist() for pair in pairs],
        suggestion_terms=texts.keywords,
        texts=[texts.sources[int(each)] for each in source],
        metadata=[
            {"pair": int(pair), "question": texts.questions[int(each)]}
            for pair, each in zip(pairs, question, strict=True)
        ],
    )


def build_triplets(
    config: BuildConfig,
    *,
    samples: SampleKind = "contrastive",
    k: int = 5,
    progress: Tell | None = None,
) -> Path:
    """Build triplets: train.jsonl, val.jsonl, test.jsonl, and the texts of their ids.

    Question q7 is row 7 of texts/questions.jsonl, source s7 row 7 of texts/sources.jsonl.

    Args:
        config: as for a steering dataset; what it says of clusters and negatives is not used.
        samples: `positive`, `contrastive` or `similar`.
        k: wrong or similar sources of each.
        progress: told where the build stands.
    """
    if k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k}")
    with workshop_of(config, progress) as shop:
        made = Assembly(config, shop)
        made.split  # noqa: B018 - the last stage that is needed
        counts = {}
        with shop.result(config.out_folder) as folder:
            folder.mkdir()
            for number, split in enumerate(SPLITS):
                dataset = _SplitPassages(made, number)
                if len(dataset.questions):
                    found = dataset.generate_samples(samples, k=k)
                    counts[split] = write_triplets(folder / f"{split}.jsonl", found)
            if not sum(counts.values()):
                raise DatasetError(
                    f"no {samples} triplet can be made: positive ones need questions with two "
                    "answers, contrastive ones sources that are no answer; try another kind"
                )
            for name in ("questions", "sources"):
                write_texts(folder, name, getattr(made.texts, name))
            told = {**made.told("triplets"), "samples": samples, "k": k, "triplets": counts}
            storage.replace_json(folder / "build.json", told)
        shop.tell("finalise", 1, 1)
    return config.out_folder


class _SplitPassages(RAGDatasetBase):
    """The questions of one split over its own sources."""

    def __init__(self, made: Assembly, number: int) -> None:
        super().__init__(seed=made.config.seed)
        self._made, self._pool = made, made.pools[number]
        self.questions = np.unique(made.texts.pair_index[made.pair_split == number, 0])

    def load(self) -> Corpus:
        """From the pieces of the build; the store is filled with their vectors."""
        texts, vectors = self._made.texts, self._made.vectors
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
