"""`SourceData`: the three splits of a source, with what a model and a report need to know of them.

Builders return it. `ColumnsDataset` holds a split in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from midstep.core.errors import FormatError
from midstep.core.random_streams import RandomStream
from midstep.core.sample_spec import SampleSpec

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Batch = Mapping[str, Tensor]


class SampleDataset(Protocol):
    """A map-style dataset that also reads whole batches."""

    def __len__(self) -> int:
        """Number of samples."""

    def __getitem__(self, row: int) -> Batch:
        """One sample, without the dimension of the batch."""

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """A batch, already collated."""

    def fingerprint(self) -> str:
        """Identifies the samples and their order."""


class ColumnsDataset(Dataset[Batch]):
    """A split held in memory, as one tensor for each key of a batch.

    >>> dataset = ColumnsDataset({"x": torch.arange(6.0).reshape(3, 2)}, "example")
    >>> dataset.__getitems__([2, 0])["x"].tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, columns: Batch, fingerprint: str) -> None:
        if len({len(column) for column in columns.values()}) != 1:
            sizes = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
            raise FormatError(f"columns of one split must be equally long, got {sizes}")
        self.columns = dict(columns)
        self._fingerprint = fingerprint

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: int) -> Batch:
        return {name: column[row] for name, column in self.columns.items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        chosen = torch.from_numpy(np.array(rows))  # a third of the time of torch.tensor(rows)
        return {name: column.index_select(0, chosen) for name, column in self.columns.items()}

    def fingerprint(self) -> str:
        """Identifies the samples and their order, as a session compares it at a resume."""
        return self._fingerprint


@dataclass(frozen=True, kw_only=True)
class SourceData:
    """The data of a source."""

    spec: SampleSpec
    """Kind and sizes of a sample."""
    splits: Mapping[Split, SampleDataset]
    """Datasets of train, val and test; none of them is empty."""
    fingerprint: str
    """Identifies samples, splits and normalisation. Equal data gives an equal fingerprint."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `meta`, as JSON values: `units`, `normalisation` and more."""

    def __post_init__(self) -> None:
        for name in SPLITS:
            if not len(self.splits[name]):
                raise FormatError(f"the split {name!r} of the data has no samples")

    @property
    def meta(self) -> dict[str, Any]:
        """What a run records of its data: sizes, split sizes, units, normalisation, fingerprint."""
        return {
            **self.spec.meta,
            "units": {},
            "normalisation": {},
            **self.details,
            "splits": {name: len(self.splits[name]) for name in SPLITS},
            "data_fingerprint": self.fingerprint,
        }


def in_memory(
    spec: SampleSpec,
    columns: Mapping[Split, Batch],
    fingerprint: str,
    details: Mapping[str, Any],
) -> SourceData:
    """A source whose splits are tensors in memory."""
    return SourceData(
        spec=spec,
        splits={name: ColumnsDataset(columns[name], f"{fingerprint}/{name}") for name in SPLITS},
        fingerprint=fingerprint,
        details=details,
    )


def hash_parts(*parts: Any) -> str:
    """A hash of arrays and of values with a fixed `str`, such as numbers and names.

    >>> hash_parts("a", 1) == hash_parts("a1")
    False
    """
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        is_array = isinstance(part, np.ndarray)
        header = f"{part.dtype.str}{part.shape}" if is_array else str(part)
        hashed.update(header.encode() + b"\x1f")
        if is_array:
            hashed.update(np.ascontiguousarray(part).data)
    return hashed.hexdigest()


def split_rows(
    rows: NDArray[np.int64], shares: Sequence[float], seed: int
) -> list[NDArray[np.int64]]:
    """Divide rows at random by shares, each part sorted; the last part takes what is left."""
    generator = RandomStream(seed, "data.split").torch_generator()
    order = rows[torch.randperm(len(rows), generator=generator).numpy()]
    ends = [round(len(rows) * sum(shares[: index + 1])) for index in range(len(shares) - 1)]
    return [np.sort(part) for part in np.split(order, ends)]
