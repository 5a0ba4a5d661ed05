"""The primary form: one `.npy` file a table, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.steering.storage.layout import Form, StoredArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemmapReader:
    """Reads `.npy` files; a pickled object in one is never loaded."""

    form: Form = "memmap"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_of(self, name: str) -> Path:
        """Where the array `name` lies."""
        return self.folder / f"{name}.npy"

    def has(self, array: StoredArray) -> bool:
        """Whether it is there."""
        return self.file_of(array.name).is_file()

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """The array, mapped or copied into memory, once its header is as expected."""
        path = self.file_of(array.name)
        stored = _map_array(path)
        problem = array.problem(path.name, stored.shape, stored.dtype.name)
        if problem:
            raise DatasetError(problem)
        return stored if mapped else np.array(stored)


def _map_array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DatasetError(f"{path.name} is missing") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:  # what numpy says of bad headers
        raise DatasetError(f"{path.name} is no whole .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise DatasetError(f"{path.name} is an archive, not one array; unpack it")
    return array


def write_memmap(folder: Path, array: StoredArray, data: NDArray[Any]) -> Path:
    """Write one array; gives its file."""
    path = folder / f"{array.name}.npy"
    with path.open("xb") as file:
        np.save(file, data, allow_pickle=False)
    return path
