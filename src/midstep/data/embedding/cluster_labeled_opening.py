"""Opening a cluster-labelled dataset: every file, shape, checksum and label looked at first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.embedding.cluster_labeled_tables import FILES, FORMAT_VERSION, SampleDatabase
from midstep.data.embedding.layout import StoredArray
from midstep.data.embedding.storage_memmap import MemmapReader
from midstep.data.embedding.tables import table_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EmbeddingFiles", "read_information", "read_labels"]

_COUNTS = ("n_samples", "n_clusters", "embedding_dim")
_LABELS = ("source_label", "steering_label")
_SUM_TOLERANCE = 1e-4


def read_information(database: SampleDatabase) -> dict[str, Any]:
    """`dataset_info`, with everything in it that opening depends on."""
    info, where = database.info(), f"dataset_info of {database.path}"
    wanted = (*_COUNTS, "format_version", "combined_weight", "labels_sha256")
    problems = [f"{name} is missing" for name in wanted if name not in info]
    if info.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        problems.append(f"format_version is {info['format_version']!r}, expected {FORMAT_VERSION}")
    for name in _COUNTS:
        value = info.get(name, 1)
        if not isinstance(value, int) or value < 1:
            problems.append(f"{name} is {value!r}, expected a whole number of at least 1")
    weight = info.get("combined_weight", 0.5)
    if not isinstance(weight, int | float) or not 0 <= weight <= 1:
        problems.append(f"combined_weight is {weight!r}, expected a number from 0 to 1")
    if problems:
        raise DatasetError(f"{where} is wrong", problems)
    return info


class EmbeddingFiles:
    """The `.npy` files that `embeddings_meta` names."""

    def __init__(self, folder: Path, database: SampleDatabase, info: Mapping[str, Any]) -> None:
        self.folder, self._info = folder, info
        self._metas = database.embeddings()
        self.checksums = {name: str(meta[4]) for name, meta in self._metas.items()}

    def read(self, *, mapped: bool, verify: bool) -> dict[str, NDArray[Any]]:
        """All arrays by name, or one error with everything that is wrong."""
        arrays, problems = {}, []
        for name in FILES:
            try:
                arrays[name] = self._one(name, mapped=mapped, verify=verify)
            except DatasetError as error:
                problems.append(str(error))
        if problems:
            raise DatasetError(
                f"the dataset in {self.folder} is not whole; restore it or build it again", problems
            )
        return arrays

    def _one(self, name: str, *, mapped: bool, verify: bool) -> NDArray[Any]:
        if name not in self._metas:
            raise DatasetError(f"embeddings_meta has no row {name}")
        relative, rows, columns, dtype, checksum = self._metas[name]
        path = self._inside(relative)
        expected = self._info["n_clusters" if name.startswith("centroid") else "n_samples"]
        if (rows, columns) != (expected, self._info["embedding_dim"]):
            raise DatasetError(
                f"embeddings_meta says {name} has the shape [{rows}, {columns}], dataset_info "
                f"[{expected}, {self._info['embedding_dim']}]"
            )
        any_matrix = StoredArray(
            name=path.stem, group="embeddings", kind="float", shape=(None, None)
        )
        array = MemmapReader(path.parent).read(any_matrix, mapped=mapped)
        found, told = (array.shape, array.dtype.name), ((rows, columns), dtype)
        if found != told:
            raise DatasetError(
                f"{path.name} holds {found[1]} {list(found[0])}, embeddings_meta says "
                f"{told[1]} {list(told[0])}"
            )
        if verify:
            _check_sum(path, checksum)
        return array

    def _inside(self, relative: Any) -> Path:
        """A path that a file names must stay in its folder."""
        given = Path(str(relative))
        path = self.folder / given
        inside = path.resolve().is_relative_to(self.folder.resolve())
        if given.is_absolute() or given.suffix != ".npy" or not inside:
            raise DatasetError(
                f"embeddings_meta names the file {str(relative)[:200]!r}, expected a .npy file in "
                "the dataset's folder, by its relative path"
            )
        return path


def _check_sum(path: Path, wanted: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise DatasetError(
            f"{path.name} has changed since it was written: its SHA-256 is {found[:16]}…, "
            f"embeddings_meta says {wanted[:16]}…"
        )


def read_labels(database: SampleDatabase, info: Mapping[str, Any]) -> NDArray[np.float32]:
    """[2, N, C]: source and steering labels of all samples."""
    count, clusters = info["n_samples"], info["n_clusters"]
    rows = database.rows("SELECT id, source_label, steering_label FROM samples ORDER BY id")
    if len(rows) != count or any(row[0] != at for at, row in enumerate(rows)):
        raise DatasetError(
            f"{database.path}: samples has {len(rows)} rows, expected the ids 0 to {count - 1}"
        )
    size = 4 * clusters
    for number, *pair in rows:
        for name, blob in zip(_LABELS, pair, strict=True):
            if not isinstance(blob, bytes) or len(blob) != size:
                raise DatasetError(
                    f"{database.path}: {name} of sample {number} is not {size} bytes of float32"
                )
    joined = [b"".join(row[part] for row in rows) for part in (1, 2)]
    labels = np.stack(
        [np.frombuffer(each, dtype="<f4").reshape(count, clusters) for each in joined]
    )
    labels = labels.astype(np.float32, copy=False)
    _check_labels(labels, database, str(info["labels_sha256"]))
    return labels


def _check_labels(labels: NDArray[np.float32], database: SampleDatabase, wanted: str) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0).all(axis=2) & (np.abs(labels.sum(axis=2) - 1) <= _SUM_TOLERANCE))
    if wrong.any():
        which, row = np.argwhere(wrong)[0]
        raise DatasetError(
            f"{database.path}: {_LABELS[which]} of sample {row} sums to "
            f"{labels[which, row].sum():g}, expected shares that sum to 1"
        )
    if table_digest(labels) != wanted:
        raise DatasetError(
            f"{database.path}: the labels have changed since they were written; write them anew"
        )
