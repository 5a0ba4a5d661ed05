"""Storage form `memmap`, the primary one: one .npy file for each array, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.steering.storage.layout import ArrayReader, StoredArray


class MemmapReader(ArrayReader):
    """Reads .npy files. A pickled object in one is refused, because unpickling runs code."""

    form = "memmap"

    def file_of(self, name: str) -> Path:
        """The file of the array."""
        return self.folder / f"{name}.npy"

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """Map the array, or copy it into memory."""
        path = self.file_of(array.name)
        stored = _map_array(path)
        array.check(path.name, stored.shape, stored.dtype.name)
        return stored if mapped else np.array(stored)


def _map_array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DatasetError(f"{path.name} is missing") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:  # numpy raises all of these
        raise DatasetError(f"{path.name} is not a complete .npy file: {error}") from None
    if not isinstance(array, np.ndarray):  # `np.load` opens zip archives (.npz) too
        raise DatasetError(f"{path.name} is an archive, expected one array; unpack it")
    return array


def write_memmap(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Write one array and return its file."""
    path = folder / f"{array.name}.npy"
    with path.open("xb") as file:
        np.save(file, data, allow_pickle=False)
    return path
