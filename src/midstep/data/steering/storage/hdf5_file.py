"""One HDF5 file for all tables, in groups; whole-row chunks, nothing compressed.

A file from elsewhere may point out of itself. Links, external storage and virtual datasets are
refused before a single value is read, and so is any filter that would load a plug-in.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.data.steering.storage.layout import Form, StoredArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


FILE_NAME = "dataset.h5"
CHUNK_BYTES = 512 * 1024
BUILT_IN_FILTERS = (1, 2, 3, 32000)
"""Deflate, shuffle, Fletcher-32, LZF: those that need no plug-in."""
MOST_EXPANSION = 1100
"""Deflate cannot do better than 1,032 to 1; what claims more holds nothing."""


class Hdf5Reader:
    """Reads the tables of `dataset.h5`; the file is closed after each."""

    form: Form = "hdf5"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_of(self, name: str) -> Path:
        """The one file."""
        del name
        return self.folder / FILE_NAME

    def has(self, array: StoredArray) -> bool:
        """Whether the file is there."""
        return self.file_of(array.name).is_file()

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """The array in memory; this form is not mapped."""
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
    """The stored dataset, if it lies in this very file and has the expected shape."""
    group = _member(h5py, file, array.group, label)
    stored = _member(h5py, group, array.name, label)
    if not isinstance(stored, h5py.Dataset):
        raise DatasetError(f"{label} is no table")
    if stored.is_virtual or stored.external:
        kind = "a virtual dataset" if stored.is_virtual else "stored in another file"
        raise DatasetError(f"{label} is {kind}; copy its values into the file itself")
    problem = array.problem(label, stored.shape or (), stored.dtype.name)
    if problem:
        raise DatasetError(problem)
    _check_filters(stored, label)
    _check_size(stored, label)
    return stored


def _member(h5py: Any, group: Any, name: str, label: str) -> Any:
    """A member of a group, never through a link that may lead elsewhere."""
    if not isinstance(group, h5py.Group):
        raise DatasetError(f"{label} is missing: {group.name} is no group")
    link = group.get(name, getlink=True)
    if link is None:
        raise DatasetError(f"{label} is missing")
    if not isinstance(link, h5py.HardLink):
        raise DatasetError(f"{label} is a {type(link).__name__} to elsewhere; it is not followed")
    return group[name]


def _check_filters(stored: Any, label: str) -> None:
    made_with = stored.id.get_create_plist()
    for at in range(made_with.get_nfilters()):
        number = made_with.get_filter(at)[0]
        if number not in BUILT_IN_FILTERS:
            raise DatasetError(f"{label} needs the filter {number}, which is not built in")


def _check_size(stored: Any, label: str) -> None:
    """A shape that the file has no bytes for would take memory for nothing."""
    held, wanted = stored.id.get_storage_size(), stored.nbytes
    most = held * MOST_EXPANSION if stored.id.get_create_plist().get_nfilters() else held
    if wanted > most:
        raise DatasetError(
            f"{label} has the shape {list(stored.shape)}, {wanted} bytes; the file holds {held}"
        )


def write_hdf5(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Add one array to the file; gives the file."""
    path = folder / FILE_NAME
    with _h5py().File(path, "a") as file:
        file.create_dataset(f"{array.group}/{array.name}", data=data, chunks=_chunks(data))
    return path


def _chunks(data: NDArray[Any]) -> tuple[int, ...] | None:
    """Whole rows, about half a megabyte of them; None (in one piece) for an empty table."""
    if not data.size:
        return None
    row = max(1, math.prod(data.shape[1:]) * data.itemsize)
    return (min(len(data), max(1, CHUNK_BYTES // row)), *data.shape[1:])
