"""What lies in an embedding dataset: the name, shape and kind of every table.

Counts are named as in config.json, so that a shape can be checked before a byte is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from midstep.core.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray


Form = Literal["memmap", "pt", "hdf5"]
FORMS: tuple[Form, ...] = ("memmap", "pt", "hdf5")
"""The physical forms of one logical dataset; `memmap` is the primary one."""

CONFIG_NAME = "config.json"
SPLITS = ("train", "val", "test")
VARIANTS = ("zero", "centroid", "keyword", "residual")
"""Names of the steering variants 0 to 3, easiest first."""

Kind = Literal["float", "int", "ragged"]
Group = Literal["embeddings", "pair_data", "negatives", "steering", "splits"]


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table: where it belongs and what it must look like."""

    name: str
    """Of its file, without the suffix."""
    group: Group
    """Of an HDF5 file."""
    kind: Kind
    """`float` is written as float32 or float16, `int` as int64, `ragged` as two int64 tables."""
    shape: tuple[str | int, ...]
    """Counts of config.json by name, or a number; empty names mean any length."""
    below: str | None = None
    """For ids: the count they must stay under."""

    def expected_shape(self, counts: Mapping[str, int]) -> tuple[int | None, ...]:
        """The shape under these counts; None where any length is right."""
        return tuple(
            counts[part] if isinstance(part, str) and part else part or None for part in self.shape
        )


def _specs() -> Iterator[TableSpec]:
    for split in SPLITS:
        yield TableSpec(
            name=f"{split}_idx", group="splits", kind="int", shape=("",), below="n_pairs"
        )
    for name, count in (
        ("question_embs", "n_questions"),
        ("source_embs", "n_sources"),
        ("keyword_embs", "n_keywords"),
        ("centroid_embs", "n_clusters"),
    ):
        yield TableSpec(name=name, group="embeddings", kind="float", shape=(count, "embedding_dim"))
    pairs, negatives = ("n_pairs",), ("n_pairs", "n_neg")
    yield TableSpec(name="pair_index", group="pair_data", kind="int", shape=("n_pairs", 2))
    yield TableSpec(
        name="pair_cluster_id", group="pair_data", kind="int", shape=pairs, below="n_clusters"
    )
    yield TableSpec(name="pair_relevance", group="pair_data", kind="float", shape=pairs)
    yield TableSpec(
        name="pair_keyword_ids", group="pair_data", kind="ragged", shape=pairs, below="n_keywords"
    )
    yield TableSpec(
        name="hard_negatives", group="negatives", kind="int", shape=negatives, below="n_sources"
    )
    yield TableSpec(name="negative_tiers", group="negatives", kind="int", shape=negatives)
    for variant in ("centroid", "keyword_weighted", "residual"):
        yield TableSpec(
            name=f"steering_{variant}",
            group="steering",
            kind="float",
            shape=("n_pairs", "embedding_dim"),
        )
    yield TableSpec(name="centroid_distances", group="steering", kind="float", shape=pairs)


TABLES: dict[str, TableSpec] = {spec.name: spec for spec in _specs()}
"""Every table by name, in the order in which they are written."""


def split_table(split: str) -> str:
    """The table of a split's pair ids.

    >>> split_table("val")
    'val_idx'
    """
    if split not in SPLITS:
        raise DatasetError(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
    return f"{split}_idx"


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """One array as it lies on disk: a table, or half of a ragged one."""

    name: str
    group: Group
    kind: Literal["float", "int"]
    shape: tuple[int | None, ...]
    """None where any length is right."""

    def problem(self, label: str, shape: Sequence[int], dtype: str) -> str | None:
        """What is wrong with a stored array of this shape and type, before it is read."""
        if len(shape) != len(self.shape) or any(
            wanted is not None and wanted != found
            for wanted, found in zip(self.shape, shape, strict=False)
        ):
            wanted = ", ".join("any" if part is None else str(part) for part in self.shape)
            return f"{label} has the shape {list(shape)}, config.json says [{wanted}]"
        if dtype not in _DTYPES[self.kind]:
            return f"{label} has the type {dtype}, expected one of {', '.join(_DTYPES[self.kind])}"
        return None


_DTYPES = {
    "float": ("float32", "float16", "float64"),
    "int": ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32"),
}


def stored_arrays(spec: TableSpec, counts: Mapping[str, int]) -> tuple[StoredArray, ...]:
    """The arrays that hold a table.

    >>> [each.name for each in stored_arrays(TABLES["pair_keyword_ids"], {"n_pairs": 4})]
    ['pair_keyword_ids_offsets', 'pair_keyword_ids_values']
    """
    shape = spec.expected_shape(counts)
    if spec.kind != "ragged":
        return (StoredArray(name=spec.name, group=spec.group, kind=spec.kind, shape=shape),)
    ends = {"offsets": (counts["n_pairs"] + 1,), "values": (None,)}
    return tuple(
        StoredArray(name=f"{spec.name}_{end}", group=spec.group, kind="int", shape=length)
        for end, length in ends.items()
    )


def canonical(array: NDArray[Any], kind: Literal["float", "int"]) -> NDArray[Any]:
    """The array as every form keeps it: int64, float16 or float32; C order, the machine's bytes."""
    wanted = np.dtype("int64" if kind == "int" else "float32")
    if kind == "float" and array.dtype.itemsize == 2:
        wanted = np.dtype("float16")
    if array.dtype == wanted and array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array, dtype=wanted)
