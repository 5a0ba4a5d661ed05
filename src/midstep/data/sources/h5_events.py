"""Events in one HDF5 file: groups `train`, `val` and `test`, each with the tables of its events.

`tokens_cont` [N, tokens, values], `tokens_id` [N, tokens] with 0 for padding, `globals`
[N, values], and `label` [N] if there are labels. Values are in physical units; z-scores are
computed on train. The file may come from a stranger: every table is checked before it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.sample_spec import SampleSpec
from midstep.data.hdf5_checks import check_storage, find_member, find_table, has_member, import_h5py
from midstep.data.sources.data_config import DataConfig, data_file
from midstep.data.sources.normalisation import EventMoments, EventNormalisation
from midstep.data.sources.source_data import SPLITS, Batch, SourceData, Split, hash_parts

Columns = dict[str, NDArray[Any]]
DIMENSIONS = {
    "tokens_cont": "events × tokens × values",
    "tokens_id": "events × tokens",
    "globals": "events × values",
    "label": "events",
}
KINDS = {"tokens_cont": "f", "tokens_id": "iu", "globals": "f", "label": "iu"}
DESCRIPTION = "midstep"
"""Attribute of the file: names and units, as JSON in a string of fixed length."""
MOST_DESCRIPTION_BYTES = 64 << 10
MOST_TYPES = 65_536
"""Most types of tokens; each needs a row of an embedding."""
MOST_ROW_BYTES = 1 << 20
PIECE_BYTES = 16 << 20
DENSE = 4
"""Rows are read as one slice if it has at most this many times as many rows."""


def build_h5(cfg: DataConfig) -> SourceData:
    """The events of a file. Batches are read from it on request; see `data.cache`."""
    path = data_file(cfg)
    identity = _Identity.read(path)
    scan = scan_events(path)
    return SourceData(
        spec=scan.spec,
        splits={name: H5Events(path, name, scan, identity) for name in SPLITS},
        fingerprint=scan.fingerprint,
        details={
            "source": "h5",
            "normalisation": scan.normalisation.to_json(),
            **scan.description,
        },
    )


@dataclass(frozen=True, kw_only=True)
class EventScan:
    """What one pass over a file of events says."""

    spec: SampleSpec
    """Sizes of an event."""
    counts: Mapping[Split, int]
    """Events of each split."""
    normalisation: EventNormalisation
    """Z-scores of train."""
    ranges: Mapping[str, Mapping[str, list[float]]]
    """Smallest and largest values of `tokens_cont` (padding left out) and `globals`."""
    description: Mapping[str, Any]
    """Names and units, if the file has them."""
    fingerprint: str
    """Hash of all values, whatever their chunks and filters."""


def scan_events(path: Path) -> EventScan:
    """Check a file of events as a whole, in pieces.

    Raises:
        FormatError: it is not such a file, or a value is not finite or out of range.
    """
    moments, ranges = EventMoments(), _Ranges()
    hashes: list[str] = []
    train_labels: set[int] = set()
    with _open_events(path) as file:
        tables = {name: _event_tables(path, file, name) for name in SPLITS}
        _check_equal_sizes(path, tables)
        for name, each in tables.items():
            for start, columns in _pieces(each):
                _check_values(f"{path}:{name}", start, columns)
                parts = (part for pair in columns.items() for part in pair)
                hashes.append(hash_parts(name, *parts))
                ranges.add(columns)
                if name == "train":
                    moments.add(columns)
                    train_labels.update(np.unique(columns.get("label", ())).tolist())
        description = _read_description(path, file, tables["train"])
    train = tables["train"]
    return EventScan(
        spec=SampleSpec(
            kind="events",
            n_tokens=train["tokens_id"].shape[1],
            cont_dim=train["tokens_cont"].shape[2],
            globals=train["globals"].shape[1],
            num_types=max(ranges.largest_type + 1, len(description.get("type_names", ()))),
            # Labels that differ in train are classes; else 1 marks the anomalies of test.
            classes=max(train_labels) + 1 if len(train_labels) > 1 else 0,
        ),
        counts={name: len(each["tokens_id"]) for name, each in tables.items()},
        normalisation=moments.normalisation,
        ranges=ranges.to_json(),
        description=description,
        fingerprint=hash_parts("h5", *hashes),
    )


class _Ranges:
    """Smallest and largest values of columns."""

    def __init__(self) -> None:
        self._ranges: dict[str, tuple[Any, Any]] = {}
        self.largest_type = 0

    def add(self, columns: Columns) -> None:
        real = columns["tokens_id"] != 0
        self.largest_type = max(self.largest_type, int(columns["tokens_id"].max()))
        tables = {"tokens_cont": columns["tokens_cont"][real], "globals": columns["globals"]}
        for name, rows in tables.items():
            if len(rows):
                low, high = self._ranges.get(name, (rows[0], rows[0]))
                self._ranges[name] = (
                    np.minimum(low, rows.min(axis=0)),
                    np.maximum(high, rows.max(axis=0)),
                )

    def to_json(self) -> dict[str, dict[str, list[float]]]:
        return {
            name: {"min": low.astype(float).tolist(), "max": high.astype(float).tolist()}
            for name, (low, high) in self._ranges.items()
        }


# -- the file -------------------------------------------------------------------------------------


@contextmanager
def _open_events(path: Path) -> Iterator[Any]:
    """The open file; every error of reading it names the file."""
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        reason = " ".join(str(error).split())
        raise FormatError(f"{path} cannot be read as an HDF5 file of events: {reason}") from None


def _event_tables(path: Path, file: Any, split: Split) -> dict[str, Any]:
    """The checked tables of one split; `label` may be missing."""
    if not has_member(file, split):
        raise FormatError(f"{path} has no group {split!r}; expected groups {', '.join(SPLITS)}")
    group = find_member(file, split, f"{path}:{split}")
    tables = {}
    for name, dimensions in DIMENSIONS.items():
        if name == "label" and not has_member(group, name):
            continue
        label = f"{path}:{split}/{name}"
        tables[name] = table = find_table(group, name, label)
        shape = table.shape or ()
        if len(shape) != len(dimensions.split(" × ")) or 0 in shape:
            raise FormatError(f"{label} has the shape {list(shape)}, expected {dimensions}")
        if table.dtype.kind not in KINDS[name]:
            kind = "decimal" if KINDS[name] == "f" else "whole"
            raise FormatError(f"{label} has the type {table.dtype}, expected {kind} numbers")
        if table.dtype.itemsize * int(np.prod(shape[1:], dtype=object)) > MOST_ROW_BYTES:
            raise FormatError(
                f"{label} has the shape {list(shape)}; an event may have {MOST_ROW_BYTES:,} bytes"
            )
        check_storage(table, label)
    _check_rows(path, split, tables)
    return tables


def _check_rows(path: Path, split: Split, tables: Mapping[str, Any]) -> None:
    """All tables of a split must have a row for each event, and tokens a type each."""
    expected = tables["tokens_cont"].shape
    for name, table in tables.items():
        common = 2 if name == "tokens_id" else 1
        if table.shape[:common] != expected[:common]:
            raise FormatError(
                f"{path}:{split}/{name} has the shape {list(table.shape)}, which does not fit "
                f"tokens_cont with {list(expected)}"
            )


def _check_equal_sizes(path: Path, tables: Mapping[Split, Mapping[str, Any]]) -> None:
    """The splits must have the same tables, and their events the same sizes."""
    sizes = {
        split: {name: tuple(table.shape[1:]) for name, table in each.items()}
        for split, each in tables.items()
    }
    for split in SPLITS:
        if sizes[split] != sizes["train"]:
            raise FormatError(
                f"{path}: events of {split!r} have the sizes {sizes[split]}, those of 'train' "
                f"{sizes['train']}; they must be equal"
            )


def _pieces(tables: Mapping[str, Any]) -> Iterator[tuple[int, Columns]]:
    """All rows in pieces of some megabytes, with the number of their first row."""
    count = len(tables["tokens_id"])
    row_bytes = sum(table.nbytes // count for table in tables.values())
    rows = max(1, PIECE_BYTES // max(1, row_bytes))
    for start in range(0, count, rows):
        yield start, {name: table[start : start + rows] for name, table in tables.items()}


def _check_values(label: str, start: int, columns: Columns) -> None:
    """Refuse values that are not finite, and types and labels that are out of range."""
    ids = columns["tokens_id"]
    wrong = {
        "tokens_cont": ~np.isfinite(columns["tokens_cont"]).all(axis=2) & (ids != 0),
        "globals": ~np.isfinite(columns["globals"]),
        "tokens_id": (ids < 0) | (ids >= MOST_TYPES),
    }
    if "label" in columns:
        wrong["label"] = (columns["label"] < 0) | (columns["label"] >= MOST_TYPES)
    for name, flags in wrong.items():
        if flags.any():
            row = int(np.argwhere(flags)[0][0])
            expected = "finite" if KINDS[name] == "f" else f"from 0 to {MOST_TYPES - 1}"
            raise FormatError(
                f"{label}/{name}: row {start + row} has a value that is not {expected}"
            )


def _read_description(path: Path, file: Any, train: Mapping[str, Any]) -> dict[str, Any]:
    """Names and units in the attribute of the file; empty if it has none."""
    if DESCRIPTION not in file.attrs:
        return {}
    attribute = file.attrs.get_id(DESCRIPTION)
    is_text = attribute.dtype.kind == "S" and attribute.shape == ()
    if not is_text or attribute.dtype.itemsize > MOST_DESCRIPTION_BYTES:
        raise FormatError(f"{path}: the attribute {DESCRIPTION!r} is not a short JSON text")
    try:
        content = strict_json.loads(bytes(file.attrs[DESCRIPTION]))
    except FormatError as error:
        raise FormatError(f"{path}: the attribute {DESCRIPTION!r} is {error}") from None
    lengths = {"token_features": train["tokens_cont"].shape[2], "type_names": None}
    lengths["global_features"] = train["globals"].shape[1]
    units = {"tokens_cont": lengths["token_features"], "globals": lengths["global_features"]}
    described = {**lengths, "units": units}
    if not isinstance(content, dict) or not all(
        _is_described(content[name], described[name]) for name in described if name in content
    ):
        raise FormatError(
            f"{path}: the attribute {DESCRIPTION!r} does not fit the tables; expected a name and a "
            "unit for each value"
        )
    return {name: content[name] for name in described if name in content}


def _is_described(given: Any, expected: Any) -> bool:
    """Whether a value is a list of names of the expected length, or a mapping of such lists."""
    if isinstance(expected, Mapping):
        return (
            isinstance(given, dict)
            and given.keys() == expected.keys()
            and all(_is_described(given[name], length) for name, length in expected.items())
        )
    return (
        isinstance(given, list)
        and all(isinstance(each, str) for each in given)
        and expected in (None, len(given))
    )


# -- reading batches ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Identity:
    """Tells whether a path still leads to the file that was checked."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def read(cls, path: Path) -> _Identity:
        status = path.stat()
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class H5Events(Dataset[Batch]):
    """One split of a file of events, read and normalised on request."""

    def __init__(self, path: Path, split: Split, scan: EventScan, identity: _Identity) -> None:
        self._path, self._split, self._identity = path, split, identity
        self._count, self._normalisation = scan.counts[split], scan.normalisation
        self._fingerprint = f"{scan.fingerprint}/{split}"
        self._open = _OpenTables()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Batch:
        return {name: column[0] for name, column in self.__getitems__([row]).items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        wanted = np.asarray(rows, dtype=np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self._count:
            raise IndexError(f"rows must be from 0 to {self._count - 1}")
        sorted_rows, back = np.unique(wanted, return_inverse=True)
        columns = {
            name: _read_rows(table, sorted_rows)[back] for name, table in self._tables().items()
        }
        normal = self._normalisation.apply(columns)
        return {name: torch.from_numpy(column) for name, column in normal.items()}

    def fingerprint(self) -> str:
        """Identifies the samples and their order."""
        return self._fingerprint

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": _OpenTables()}  # an open file cannot go to a worker

    def _tables(self) -> Mapping[str, Any]:
        # A forked worker shares the descriptor of its parent, so it opens the file again.
        if self._open.process != os.getpid():
            if _Identity.read(self._path) != self._identity:
                raise FormatError(f"{self._path} was changed while it was in use; start again")
            file = import_h5py().File(self._path, "r")
            tables = _event_tables(self._path, file, self._split)
            self._open = _OpenTables(os.getpid(), file, tables)
        return self._open.tables


@dataclass
class _OpenTables:
    """The file as one process has opened it."""

    process: int = 0
    file: Any = None
    tables: Mapping[str, Any] = field(default_factory=dict)


def _read_rows(table: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Sorted rows of a table."""
    if not len(rows):
        return np.empty((0, *table.shape[1:]), table.dtype)
    first, last = int(rows[0]), int(rows[-1])
    if last - first < DENSE * len(rows):  # one slice is much faster than a list of rows
        return np.asarray(table[first : last + 1][rows - first])
    return np.asarray(table[rows])
