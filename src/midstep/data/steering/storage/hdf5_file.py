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

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.data.steering.storage.layout import ArrayReader, StoredArray

FILE_NAME = "dataset.h5"
CHUNK_BYTES = 512 * 1024
BUILT_IN_FILTERS = (1, 2, 3, 32000)
"""Deflate, shuffle, Fletcher-32, LZF: the filters that need no plug-in."""
MOST_EXPANSION = 1100
"""Largest accepted ratio of decompressed to stored bytes. Deflate reaches 1,032 at most."""


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
        h5py = _h5py()
        label = f"{FILE_NAME}:{array.group}/{array.name}"
        try:
            with h5py.File(self.file_of(array.name), "r") as file:
                stored = _find_table(h5py, file, array, label)
                data = np.empty(stored.shape, dtype=stored.dtype)
                if data.size:
                    stored.read_direct(data)
                return data
        except FileNotFoundError:
            raise DatasetError(f"{FILE_NAME} is missing") from None
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise DatasetError(f"{label} cannot be read: {error}") from None


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError.of("h5py", "data") from None
    return h5py


def _find_table(h5py: Any, file: Any, array: StoredArray, label: str) -> Any:
    """The HDF5 dataset of an array, if it lies in this file and has the expected shape."""
    stored = _member(h5py, _member(h5py, file, array.group, label), array.name, label)
    if not isinstance(stored, h5py.Dataset):
        raise DatasetError(f"{label} is not a table")
    if stored.is_virtual or stored.external:
        kind = "a virtual dataset" if stored.is_virtual else "stored in another file"
        raise DatasetError(f"{label} is {kind}; copy its values into the file itself")
    array.check(label, stored.shape or (), stored.dtype.name)
    _check_storage(stored, label)
    return stored


def _member(h5py: Any, group: Any, name: str, label: str) -> Any:
    """A member of a group. Soft and external links are refused: they may lead to other files."""
    if not isinstance(group, h5py.Group):
        raise DatasetError(f"{label} is missing: {group.name} is not a group")
    link = group.get(name, getlink=True)
    if link is None:
        raise DatasetError(f"{label} is missing")
    if not isinstance(link, h5py.HardLink):
        raise DatasetError(
            f"{label} is a {type(link).__name__}, which is not followed; copy the table into the "
            "file itself"
        )
    return group[name]


def _check_storage(stored: Any, label: str) -> None:
    """Refuse filters that are plug-ins, and a shape that the stored bytes cannot fill."""
    properties = stored.id.get_create_plist()
    filters = properties.get_nfilters()
    for index in range(filters):
        number = properties.get_filter(index)[0]
        if number not in BUILT_IN_FILTERS:
            raise DatasetError(
                f"{label} needs the filter {number}, which is not built in; store it without"
            )
    # A larger shape would only allocate memory.
    held, wanted = stored.id.get_storage_size(), stored.nbytes
    if wanted > (held * MOST_EXPANSION if filters else held):
        raise DatasetError(
            f"{label} has the shape {list(stored.shape)}, {wanted} bytes; the file holds {held}"
        )


def write_hdf5(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Add one array to the file and return the file."""
    path = folder / FILE_NAME
    with _h5py().File(path, "a") as file:
        file.create_dataset(f"{array.group}/{array.name}", data=data, chunks=_chunks(data))
    return path


def _chunks(data: NDArray[Any]) -> tuple[int, ...] | None:
    """Whole rows, about half a megabyte; None (no chunks), which HDF5 needs for empty tables."""
    if not data.size:
        return None
    row_bytes = max(1, math.prod(data.shape[1:]) * data.itemsize)
    return (min(len(data), max(1, CHUNK_BYTES // row_bytes)), *data.shape[1:])
