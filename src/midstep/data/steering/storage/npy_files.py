"""Storage form `memmap`, the primary one: one .npy file for each array, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.files.untrusted_files import file_problem, open_file
from midstep.data.mapped_arrays import map_array
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
    problem = file_problem(path)
    if problem is not None:
        raise DatasetError(problem)
    try:
        with open_file(path) as file:
            return map_array(file)
    except (OSError, ValueError, EOFError, SyntaxError) as error:  # numpy raises all of these
        raise DatasetError(f"{path.name} is not a complete .npy file: {error}") from None


def write_memmap(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Write one array and return its file."""
    path = folder / f"{array.name}.npy"
    with path.open("xb") as file:
        np.save(file, data, allow_pickle=False)
    return path
