"""The tables of a steering dataset on disk: name, shape and kind of each, and how they are read.

Shapes use the counts of config.json by name, so a shape is checked before a byte is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError

Form = Literal["memmap", "pt", "hdf5"]
FORMS: tuple[Form, ...] = ("memmap", "pt", "hdf5")
"""The storage forms of one dataset; `memmap` is the primary one."""

CONFIG_NAME = "config.json"
SPLITS = ("train", "val", "test")
VARIANTS = ("zero", "centroid", "keyword", "residual")
"""Names of the steering variants 0 to 3, easiest first."""

Kind = Literal["float", "int", "ragged"]
Group = Literal["embeddings", "pair_data", "negatives", "steering", "splits"]

_DTYPES = {
    "float": ("float32", "float16", "float64"),
    "int": ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32"),
}


@dataclass(frozen=True)
class TableSpec:
    """What a table is called and what it must look like."""

    name: str
    """Name of its file, without the suffix."""
    group: Group
    """Its group in an HDF5 file."""
    kind: Kind
    """`float` is stored as float32 or float16, `int` as int64, `ragged` as two int64 arrays."""
    shape: tuple[str | int | None, ...]
    """Counts of config.json by name, or numbers; None where any length is right."""
    below: str | None = None
    """The count that ids must stay below; None for other values."""


_PAIRS = ("n_pairs",)
_NEGATIVES = ("n_pairs", "n_neg")
_PAIR_VECTORS = ("n_pairs", "embedding_dim")

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        TableSpec("train_idx", "splits", "int", (None,), below="n_pairs"),
        TableSpec("val_idx", "splits", "int", (None,), below="n_pairs"),
        TableSpec("test_idx", "splits", "int", (None,), below="n_pairs"),
        TableSpec("question_embs", "embeddings", "float", ("n_questions", "embedding_dim")),
        TableSpec("source_embs", "embeddings", "float", ("n_sources", "embedding_dim")),
        TableSpec("keyword_embs", "embeddings", "float", ("n_keywords", "embedding_dim")),
        TableSpec("centroid_embs", "embeddings", "float", ("n_clusters", "embedding_dim")),
        TableSpec("pair_index", "pair_data", "int", ("n_pairs", 2)),
        TableSpec("pair_cluster_id", "pair_data", "int", _PAIRS, below="n_clusters"),
        TableSpec("pair_relevance", "pair_data", "float", _PAIRS),
        TableSpec("pair_keyword_ids", "pair_data", "ragged", _PAIRS, below="n_keywords"),
        TableSpec("hard_negatives", "negatives", "int", _NEGATIVES, below="n_sources"),
        TableSpec("negative_tiers", "negatives", "int", _NEGATIVES),
        TableSpec("steering_centroid", "steering", "float", _PAIR_VECTORS),
        TableSpec("steering_keyword_weighted", "steering", "float", _PAIR_VECTORS),
        TableSpec("steering_residual", "steering", "float", _PAIR_VECTORS),
        TableSpec("centroid_distances", "steering", "float", _PAIRS),
    )
}
"""Every table by name. Fingerprints and digests list them in this order, so it must not change."""


def split_table(split: str) -> str:
    """The name of the table with the pair ids of a split.

    >>> split_table("val")
    'val_idx'
    """
    if split not in SPLITS:
        raise DatasetError(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
    return f"{split}_idx"


@dataclass(frozen=True)
class StoredArray:
    """One array on disk: a table, or the offsets or values of a ragged table."""

    name: str
    group: Group
    kind: Literal["float", "int"]
    shape: tuple[int | None, ...]
    """None where any length is right."""

    def problem(self, label: str, shape: Sequence[int], dtype: str) -> str | None:
        """What is wrong with an array of this shape and type; None if nothing is."""
        if len(shape) != len(self.shape) or any(
            expected not in (None, size) for expected, size in zip(self.shape, shape, strict=True)
        ):
            wanted = ", ".join("any" if part is None else str(part) for part in self.shape)
            return f"{label} has the shape {list(shape)}, config.json says [{wanted}]"
        if dtype not in _DTYPES[self.kind]:
            return f"{label} has the type {dtype}, expected one of {', '.join(_DTYPES[self.kind])}"
        return None

    def check(self, label: str, shape: Sequence[int], dtype: str) -> None:
        """Raise a `DatasetError` if an array has the wrong shape or type."""
        problem = self.problem(label, shape, dtype)
        if problem is not None:
            raise DatasetError(problem)


def stored_arrays(spec: TableSpec, counts: Mapping[str, int]) -> tuple[StoredArray, ...]:
    """The arrays that a table is stored in: one, or two for a ragged table.

    >>> [each.name for each in stored_arrays(TABLES["pair_keyword_ids"], {"n_pairs": 4})]
    ['pair_keyword_ids_offsets', 'pair_keyword_ids_values']
    """
    if spec.kind == "ragged":
        return (
            StoredArray(f"{spec.name}_offsets", spec.group, "int", (counts["n_pairs"] + 1,)),
            StoredArray(f"{spec.name}_values", spec.group, "int", (None,)),
        )
    shape = tuple(counts[part] if isinstance(part, str) else part for part in spec.shape)
    return (StoredArray(spec.name, spec.group, spec.kind, shape),)


class ArrayReader(ABC):
    """Reads the arrays of one storage form from a folder.

    Args:
        folder: the folder of the dataset.
    """

    form: ClassVar[Form]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def file_of(self, name: str) -> Path:
        """The file that holds an array."""

    @abstractmethod
    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """Read an array. Its shape and type are checked before any value is read.

        Args:
            array: which array, and what it must look like.
            mapped: map the file into memory if the form allows it; if False, return a copy.
        """


def canonical(array: NDArray[Any], kind: Literal["float", "int"]) -> NDArray[Any]:
    """The array as every form stores it: int64, float16 or float32, native bytes, C order."""
    dtype = np.dtype("int64" if kind == "int" else "float32")
    if kind == "float" and array.dtype.itemsize == 2:
        dtype = np.dtype("float16")
    # The array itself where nothing changes: `ascontiguousarray` would drop the memory map.
    if array.dtype == dtype and array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array, dtype=dtype)
