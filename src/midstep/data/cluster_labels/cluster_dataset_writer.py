"""Writing a cluster-labelled dataset: labels from the formulas, every file with its hash."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
)
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import canonical
from midstep.data.steering.storage.tables import table_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class ClusterSamples:
    """What a cluster-labelled dataset is made of: N samples, C clusters, D numbers a vector.

    >>> samples = ClusterSamples(
    ...     base_embeddings=np.eye(3), steering_embeddings=np.zeros((3, 3)), centroids=np.eye(3)[:2]
    ... )
    >>> samples.counts
    (3, 2, 3)
    """

    base_embeddings: NDArray[Any]
    """[N, D], what is to be classified; float16 stays, other floats become float32."""
    steering_embeddings: NDArray[Any]
    """[N, D]; a row of zeros is a sample without steering."""
    centroids: NDArray[Any]
    """[C, D], one a cluster."""
    source_probabilities: NDArray[Any] | None = None
    """[N, C]; a row of NaN leaves its sample to its suggestion terms."""
    suggestion_embeddings: NDArray[Any] | None = None
    """[T, D], all suggestion terms."""
    suggestions: Ragged | Sequence[Sequence[int]] | None = None
    """Terms of each sample, as rows of `suggestion_embeddings`."""
    suggestion_terms: Sequence[str] | None = None
    """The terms themselves, for the metadata of a sample."""
    texts: Sequence[str] | None = None
    """Of each sample."""
    metadata: Sequence[Mapping[str, Any]] | None = None
    """Of each sample: whatever JSON can hold."""
    cluster_names: Sequence[str] = field(default_factory=tuple)
    """Of the clusters, kept in the dataset's information."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """N, C and D."""
        return len(self.base_embeddings), len(self.centroids), self.base_embeddings.shape[-1]

    @property
    def term_ids(self) -> Ragged:
        """The terms of each sample; none where nothing was given."""
        given = self.suggestions
        if given is None:
            return Ragged.of([[] for _ in range(len(self.base_embeddings))])
        return given if isinstance(given, Ragged) else Ragged.of(given)

    @property
    def term_embeddings(self) -> NDArray[Any]:
        """[T, D]; empty where nothing was given."""
        given = self.suggestion_embeddings
        return np.zeros((0, self.counts[2]), np.float32) if given is None else np.asarray(given)


def write_cluster_dataset(
    folder: str | Path,
    samples: ClusterSamples,
    *,
    temperature: float = 0.1,
    combined_weight: float = 0.5,
) -> Path:
    """Write a cluster-labelled dataset into a new folder: there with all its files, or not at all.

    Args:
        folder: must not exist; its parent must.
        samples: embeddings, and what the labels are made of.
        temperature: T of the labels' softmax over cosine distances.
        combined_weight: w, the steering label's part of the combined one.

    Raises:
        DatasetError: with everything that is wrong with the samples; nothing is written then.

    >>> made = write_cluster_dataset("three", ClusterSamples(
    ...     base_embeddings=np.eye(3), steering_embeddings=np.zeros((3, 3)), centroids=np.eye(3)[:2]
    ... ))
    >>> sorted(path.name for path in made.iterdir())
    ['base_embeddings.npy', 'centroid_embeddings.npy', 'dataset.db', 'steering_embeddings.npy']
    """
    check_weight(combined_weight)
    problems = list(_problems(samples))
    if problems:
        raise DatasetError("the samples cannot be written", problems)
    labels = _labels(samples, temperature)
    settings = {"temperature": temperature, "combined_weight": combined_weight}
    with new_folder(folder) as temporary:
        arrays = (samples.base_embeddings, samples.steering_embeddings, samples.centroids)
        metas = [
            _write_array(temporary, name, canonical(np.asarray(array), "float"))
            for name, array in zip(FILES, arrays, strict=True)
        ]
        _write_database(temporary / DATABASE_NAME, samples, labels, metas, settings)
    return Path(folder)


def _labels(samples: ClusterSamples, temperature: float) -> list[NDArray[np.float32]]:
    source = source_labels(
        samples.centroids,
        samples.term_embeddings,
        samples.term_ids,
        given_NC=samples.source_probabilities,
        temperature=temperature,
    )
    # From the vectors as they are stored, so that anybody can compute the labels again.
    stored = canonical(np.asarray(samples.steering_embeddings), "float")
    return [source, steering_labels(stored, samples.centroids, temperature=temperature)]


# -- what may be wrong -----------------------------------------------------------------------------


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
    absent = np.isnan(given).all(axis=1)
    good = (given >= 0).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= _SUM_TOLERANCE)
    for row in np.flatnonzero(~absent & ~good)[:1]:
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


def _write_array(
    folder: Path, name: str, array: NDArray[Any]
) -> tuple[str, str, int, int, str, str]:
    """Write one array; gives its row of `embeddings_meta`."""
    path = folder / f"{name}.npy"
    with path.open("xb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return name, path.name, *array.shape, array.dtype.name, digest


def _write_database(
    path: Path,
    samples: ClusterSamples,
    labels: Sequence[NDArray[np.float32]],
    metas: Sequence[tuple[str, str, int, int, str, str]],
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
        database.executemany("INSERT INTO embeddings_meta VALUES (?, ?, ?, ?, ?, ?)", metas)
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
