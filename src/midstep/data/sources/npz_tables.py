"""Tables for anomaly benchmarks: .npz files with `X` [rows, features] and `y` [rows], 1 = anomaly.

Half of the normal rows are for training (a tenth of them for validation); the other half and all
anomalies are `test`. Without `y`, rows are divided into 80, 10 and 10 percent.
"""

from __future__ import annotations

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midstep.core.errors import FormatError
from midstep.core.sample_spec import SampleSpec
from midstep.data.sources.data_config import DataConfig, data_file
from midstep.data.sources.normalisation import RunningMoments
from midstep.data.sources.source_data import (
    SPLITS,
    SourceData,
    hash_parts,
    in_memory,
    split_rows,
)

NORMAL_SHARES = (0.45, 0.05, 0.50)
"""Shares of the normal rows for train, val and test."""
PLAIN_SHARES = (0.80, 0.10, 0.10)
"""Shares of all rows, if none is an anomaly."""
MOST_BYTES = 4 << 30
"""Most bytes of one array."""
MOST_HEADER_BYTES = 4_096
MOST_MEMBERS = 100
MOST_EXPANSION = 1_100
"""Largest accepted ratio of unpacked to packed bytes. Deflate reaches 1,032 at most."""
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(OSError, EOFError, RuntimeError, UnicodeError),
)
"""What reading a damaged archive raises; RuntimeError includes methods that are not supported."""
_HEADER_ERRORS = (ValueError, KeyError, EOFError, SyntaxError, TypeError, tokenize.TokenError)
"""What NumPy raises for a header that is not the dict of an array."""


def build_npz(cfg: DataConfig) -> SourceData:
    """The rows of a table as vectors, z-scored on train."""
    path = data_file(cfg)
    table = read_table(path)
    values, labels = table["X"], table.get("y")
    parts = _divide(labels, len(values), cfg.seed)
    if not all(len(rows) for rows in parts):
        raise FormatError(f"{path} has too few normal rows for the splits {', '.join(SPLITS)}")
    moments = RunningMoments()
    moments.add(values[parts[0]])
    zscore = moments.zscore
    columns = {
        name: {
            "x": torch.from_numpy(zscore.apply(values[rows])),
            **({} if labels is None else {"label": torch.from_numpy(labels[rows])}),
        }
        for name, rows in zip(SPLITS, parts, strict=True)
    }
    return in_memory(
        SampleSpec(kind="vector", features=values.shape[1]),
        columns,
        hash_parts("npz", cfg.seed, values, *([] if labels is None else [labels])),
        {
            "source": "npz",
            "normalisation": {"kind": "zscore", "fitted_on": "train", "x": zscore.to_json()},
            "anomalies": {"test": 0 if labels is None else int(labels.sum())},
        },
    )


def _divide(labels: NDArray[np.int64] | None, count: int, seed: int) -> list[NDArray[np.int64]]:
    if labels is None or not labels.any():
        return split_rows(np.arange(count), PLAIN_SHARES, seed)
    train, val, test = split_rows(np.flatnonzero(labels == 0), NORMAL_SHARES, seed)
    return [train, val, np.sort(np.concatenate([test, np.flatnonzero(labels == 1)]))]


# -- the file -------------------------------------------------------------------------------------


def read_table(path: Path) -> dict[str, NDArray[Any]]:
    """`X` as float64 and, if the file has it, `y` as int64.

    Raises:
        FormatError: the file is not such a table; arrays of objects are never unpickled.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive)
            arrays = {
                name: _read_array(archive, members[name], f"{path}:{name}", path.stat().st_size)
                for name in ("X", "y")
                if name in members
            }
    except _ZIP_ERRORS as error:
        raise FormatError(f"{path} cannot be read as an .npz file: {_reason(error)}") from None
    if "X" not in arrays:
        names = ", ".join(members) or "nothing"
        raise FormatError(f"{path} has no array 'X' with the rows; it holds {names}")
    return _check_table(path, arrays)


def _members(path: Path, archive: zipfile.ZipFile) -> Mapping[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    members = {info.filename.removesuffix(".npy"): info for info in entries}
    if len(entries) > MOST_MEMBERS or len(members) != len(entries):
        raise FormatError(f"{path} has names twice, or more than {MOST_MEMBERS} arrays")
    return members


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str, file_bytes: int
) -> NDArray[Any]:
    """One array. Its header is compared with the sizes of the archive before memory is taken."""
    with archive.open(info) as member:
        shape, is_fortran, dtype, header_bytes = _read_header(member, label)
        size = math.prod(shape) * dtype.itemsize
        is_packed_too_well = info.file_size > min(info.compress_size, file_bytes) * MOST_EXPANSION
        if size + header_bytes != info.file_size or size > MOST_BYTES or is_packed_too_well:
            raise FormatError(
                f"{label} has the shape {list(shape)}, {size:,} bytes; the file holds "
                f"{info.file_size:,} ({info.compress_size:,} packed); at most {MOST_BYTES:,} are "
                "read"
            )
        data = member.read(size)
    if len(data) != size:
        raise FormatError(f"{label} ends after {len(data):,} of {size:,} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _read_header(member: Any, label: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and length of the header of an .npy member."""
    try:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, is_fortran, dtype = read(member, max_header_size=MOST_HEADER_BYTES)
    except _HEADER_ERRORS as error:
        raise FormatError(f"{label} is not an array in .npy format: {_reason(error)}") from None
    if min(shape, default=0) < 0:
        raise FormatError(f"{label} has the shape {list(shape)}, expected no negative size")
    if dtype.kind not in "fiub":
        raise FormatError(f"{label} has the type {dtype}, expected numbers")
    return shape, is_fortran, dtype, member.tell()


def _reason(error: Exception) -> str:
    """The first line of an error; zipfile ends some files with an `EOFError` that has no text."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _check_table(path: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays in the types that sources use; shapes and values are checked."""
    values = arrays["X"]
    if values.ndim != 2 or 0 in values.shape:
        raise FormatError(f"{path}:X has the shape {list(values.shape)}, expected rows × features")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise FormatError(f"{path}:X: row {row} has a value that is not finite")
    if "y" not in arrays:
        return {"X": values}
    labels = arrays["y"]
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != values.shape[:1]:
        raise FormatError(
            f"{path}:y has the shape {list(labels.shape)}, expected one label for each of the "
            f"{len(values)} rows"
        )
    if not np.isin(labels, (0, 1)).all():
        raise FormatError(f"{path}:y must be 0 for a normal row and 1 for an anomaly")
    return {"X": values, "y": labels.astype(np.int64)}
