"""Storage form `hdf5`: one file for all tables, in groups; chunks of whole rows, no compression.

An HDF5 file from elsewhere may refer to other files or ask for a filter plug-in, which is code.
Links, external storage, virtual datasets and plug-in filters are refused before a value is read.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, FormatError
from midstep.data.hdf5_checks import check_storage, find_table, import_h5py
from midstep.data.steering.storage.layout import ArrayReader, StoredArray

FILE_NAME = "dataset.h5"
CHUNK_BYTES = 512 * 1024


class Hdf5Reader(ArrayReader):
    """Reads arrays from `dataset.h5`. The file is closed after each."""

    form = "hdf5"

    def file_of(self, name: str) -> Path:
        """The one file, whatever the array."""
        del name
        return self.folder / FILE_NAME

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """Read the array into memory; this form cannot be mapped."""
        del mapped
        h5py = import_h5py()
        label = f"{FILE_NAME}:{array.group}/{array.name}"
        try:
            with h5py.File(self.file_of(array.name), "r") as file:
                stored = _find_table(file, array, label)
                data = np.empty(stored.shape, dtype=stored.dtype)
                if data.size:
                    stored.read_direct(data)
                return data
        except FileNotFoundError:
            raise DatasetError(f"{FILE_NAME} is missing") from None
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise DatasetError(f"{label} cannot be read: {error}") from None


def _find_table(file: Any, array: StoredArray, label: str) -> Any:
    """The HDF5 dataset of an array, if it lies in this file and has the expected shape."""
    try:
        stored = find_table(file, f"{array.group}/{array.name}", label)
        array.check(label, stored.shape or (), stored.dtype.name)
        check_storage(stored, label)
    except FormatError as error:
        raise DatasetError(str(error)) from None
    return stored


def write_hdf5(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Add one array to the file and return the file."""
    path = folder / FILE_NAME
    with import_h5py().File(path, "a") as file:
        file.create_dataset(f"{array.group}/{array.name}", data=data, chunks=_chunks(data))
    return path


def _chunks(data: NDArray[Any]) -> tuple[int, ...] | None:
    """Whole rows, about half a megabyte; None (no chunks), which HDF5 needs for empty tables."""
    if not data.size:
        return None
    row_bytes = max(1, math.prod(data.shape[1:]) * data.itemsize)
    return (min(len(data), max(1, CHUNK_BYTES // row_bytes)), *data.shape[1:])
