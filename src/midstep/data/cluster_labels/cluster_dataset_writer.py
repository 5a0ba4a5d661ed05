"""Write a cluster-labelled dataset: embeddings, labels by the formulas, and hashes of the files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.core.files.atomic_folders import new_folder
from midstep.data.cluster_labels.label_formulas import (
    check_weight,
    source_labels,
    steering_labels,
)
from midstep.data.cluster_labels.sample_database import (
    DATABASE_NAME,
    FILES,
    FORMAT_VERSION,
    SCHEMA,
    EmbeddingFile,
)
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_writer import sync_and_hash
from midstep.data.steering.storage.layout import StoredArray, canonical
from midstep.data.steering.storage.npy_files import write_memmap
from midstep.data.steering.storage.tables import table_digest

_SUM_TOLERANCE = 1e-3
"""How far given probabilities may be from the sum 1; the written labels are scaled to it."""


@dataclass(frozen=True, kw_only=True)
class ClusterSamples:
    """The content of a cluster-labelled dataset: N samples, C clusters, D numbers in a vector.

    >>> samples = ClusterSamples(
    ...     base_embeddings=np.eye(3), steering_embeddings=np.zeros((3, 3)), centroids=np.eye(3)[:2]
    ... )
    >>> samples.counts
    (3, 2, 3)
    """

    base_embeddings: NDArray[Any]
    """[N, D], the vectors to classify; float16 stays, other floats become float32."""
    steering_embeddings: NDArray[Any]
    """[N, D]; a row of zeros is a sample without steering."""
    centroids: NDArray[Any]
    """[C, D], one for each cluster."""
    source_probabilities: NDArray[Any] | None = None
    """[N, C]; for a row of NaN, the source label comes from the suggestion terms."""
    suggestion_embeddings: NDArray[Any] | None = None
    """[T, D], all suggestion terms."""
    suggestions: Ragged | Sequence[Sequence[int]] | None = None
    """The terms of each sample, as rows of `suggestion_embeddings`."""
    suggestion_terms: Sequence[str] | None = None
    """The texts of the terms, for the metadata of a sample."""
    texts: Sequence[str] | None = None
    """The text of each sample."""
    metadata: Sequence[Mapping[str, Any]] | None = None
    """Further data of each sample, as JSON objects."""
    cluster_names: Sequence[str] = field(default_factory=tuple)
    """Names of the clusters, stored in `dataset_info`."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """N, C and D."""
        return len(self.base_embeddings), len(self.centroids), self.base_embeddings.shape[-1]

    @property
    def term_ids(self) -> Ragged:
        """The terms of each sample; empty lists if none were given."""
        given = self.suggestions
        if given is None:
            return Ragged.from_lists([[] for _ in range(len(self.base_embeddings))])
        return given if isinstance(given, Ragged) else Ragged.from_lists(given)

    @property
    def term_embeddings(self) -> NDArray[Any]:
        """[T, D]; no rows if none were given."""
        given = self.suggestion_embeddings
        return np.zeros((0, self.counts[2]), np.float32) if given is None else np.asarray(given)


def write_cluster_dataset(
    folder: str | Path,
    samples: ClusterSamples,
    *,
    temperature: float = 0.1,
    combined_weight: float = 0.5,
) -> Path:
    """Write a cluster-labelled dataset into a new folder, which appears complete or not at all.

    Args:
        folder: must not exist; its parent must.
        samples: embeddings, and what the labels are computed from.
        temperature: T of the softmax over cosine distances.
        combined_weight: w, the weight of the steering label in the combined label.

    Raises:
        DatasetError: if the samples are wrong, with every problem; nothing is written then.

    >>> folder = write_cluster_dataset("three", ClusterSamples(
    ...     base_embeddings=np.eye(3), steering_embeddings=np.zeros((3, 3)), centroids=np.eye(3)[:2]
    ... ))
    >>> sorted(path.name for path in folder.iterdir())
    ['base_embeddings.npy', 'centroid_embeddings.npy', 'dataset.db', 'steering_embeddings.npy']
    """
    check_weight(combined_weight)
    DatasetError.raise_if("the samples cannot be written", _problems(samples))
    labels = _labels(samples, temperature)
    settings = {"temperature": temperature, "combined_weight": combined_weight}
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with new_folder(folder) as temporary:
        arrays = (samples.base_embeddings, samples.steering_embeddings, samples.centroids)
        files = [
            _write_array(temporary, name, canonical(np.asarray(array), "float"))
            for name, array in zip(FILES, arrays, strict=True)
        ]
        _write_database(temporary / DATABASE_NAME, samples, labels, files, settings)
    return Path(folder)


def _labels(samples: ClusterSamples, temperature: float) -> list[NDArray[np.float32]]:
    source = source_labels(
        samples.centroids,
        samples.term_embeddings,
        samples.term_ids,
        given_NC=samples.source_probabilities,
        temperature=temperature,
    )
    # From the vectors as stored (float16 or float32), so that readers compute the same labels.
    stored = canonical(np.asarray(samples.steering_embeddings), "float")
    return [source, steering_labels(stored, samples.centroids, temperature=temperature)]


# -- checks ----------------------------------------------------------------------------------------


def _problems(samples: ClusterSamples) -> Iterator[str]:
    count, clusters, width = samples.counts
    shapes = {
        "base_embeddings": (samples.base_embeddings, (count, width)),
        "steering_embeddings": (samples.steering_embeddings, (count, width)),
        "centroids": (samples.centroids, (clusters, width)),
        "suggestion_embeddings": (samples.term_embeddings, (len(samples.term_embeddings), width)),
    }
    if not count or not clusters:
        yield f"there are {count} samples and {clusters} clusters, expected at least one of each"
    for name, (array, wanted) in shapes.items():
        yield from _array_problems(name, np.asarray(array), wanted)
    yield from _given_problems(samples.source_probabilities, (count, clusters))
    yield from _term_problems(samples, count)
    for name in ("texts", "metadata"):
        given = getattr(samples, name)
        if given is not None and len(given) != count:
            yield f"{name} has {len(given)} entries for {count} samples"
    if samples.cluster_names and len(samples.cluster_names) != clusters:
        yield f"cluster_names has {len(samples.cluster_names)} entries for {clusters} clusters"


def _array_problems(name: str, array: NDArray[Any], wanted: tuple[int, int]) -> Iterator[str]:
    if array.shape != wanted:
        yield f"{name} has the shape {list(array.shape)}, expected {list(wanted)}"
    elif array.size and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        yield f"{name}[{row}, {column}] is {array[row, column]}, expected a finite number"


def _given_problems(given: NDArray[Any] | None, wanted: tuple[int, int]) -> Iterator[str]:
    if given is None:
        return
    if given.shape != wanted:
        yield f"source_probabilities has the shape {list(given.shape)}, expected {list(wanted)}"
        return
    is_absent = np.isnan(given).all(axis=1)
    is_valid = (given >= 0).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= _SUM_TOLERANCE)
    for row in np.flatnonzero(~is_absent & ~is_valid)[:1]:
        yield (
            f"source_probabilities[{row}] has the sum {given[row].sum():g} and the least value "
            f"{given[row].min():g}, expected probabilities that sum to 1, or NaN throughout"
        )


def _term_problems(samples: ClusterSamples, count: int) -> Iterator[str]:
    ids, terms = samples.term_ids, len(samples.term_embeddings)
    if len(ids) != count:
        yield f"suggestions has {len(ids)} entries for {count} samples"
    wrong = ids.values[(ids.values < 0) | (ids.values >= terms)]
    if len(wrong):
        yield f"suggestions names the term {wrong[0]}, expected 0 to {terms - 1}"
    names = samples.suggestion_terms
    if names is not None and len(names) != terms:
        yield f"suggestion_terms has {len(names)} entries for {terms} suggestion_embeddings"


# -- files -----------------------------------------------------------------------------------------


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> EmbeddingFile:
    """Write one array and return its row of `embeddings_meta`."""
    path = write_memmap(folder, StoredArray(name, "embeddings", "float", (None, None)), array)
    rows, columns = array.shape
    return EmbeddingFile(name, path.name, rows, columns, array.dtype.name, sync_and_hash(path))


def _write_database(
    path: Path,
    samples: ClusterSamples,
    labels: Sequence[NDArray[np.float32]],
    files: Sequence[EmbeddingFile],
    settings: Mapping[str, float],
) -> None:
    count, clusters, width = samples.counts
    information = {
        "format_version": FORMAT_VERSION,
        "n_samples": count,
        "n_clusters": clusters,
        "embedding_dim": width,
        "labels_sha256": table_digest(np.stack(labels)),
        "cluster_names": list(samples.cluster_names),
        **settings,
    }
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        pairs = ((key, strict_json.dumps(value)) for key, value in information.items())
        database.executemany("INSERT INTO dataset_info VALUES (?, ?)", pairs)
        database.executemany("INSERT INTO embeddings_meta VALUES (?, ?, ?, ?, ?, ?)", files)
        rows = _sample_rows(samples, labels)
        database.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)", rows)


def _sample_rows(
    samples: ClusterSamples, labels: Sequence[NDArray[np.float32]]
) -> Iterator[tuple[int, str, str, str, bytes, bytes]]:
    ids, names = samples.term_ids, samples.suggestion_terms
    source, steering = (each.astype("<f4") for each in labels)
    for row in range(len(source)):
        terms = ids[row].tolist()
        yield (
            row,
            samples.texts[row] if samples.texts is not None else "",
            strict_json.dumps([names[term] for term in terms] if names is not None else terms),
            strict_json.dumps(samples.metadata[row] if samples.metadata is not None else {}),
            source[row].tobytes(),
            steering[row].tobytes(),
        )
