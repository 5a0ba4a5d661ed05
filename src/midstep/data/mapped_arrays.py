"""Map the array of an opened .npy file into memory. `np.load` maps a file only by its name."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray


def map_array(file: BinaryIO) -> NDArray[Any]:
    """The array of a .npy file, read-only.

    Raises:
        ValueError: if it is not a .npy file, is cut off or longer than its array, or has a pickled
            object: unpickling runs code.
    """
    major, _ = np.lib.format.read_magic(file)
    read_header = (
        np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it has pickled objects, which are not loaded")
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    array = np.memmap(file, dtype, "r", file.tell(), shape, order)
    more = os.fstat(file.fileno()).st_size - array.offset - array.nbytes
    if more:
        raise ValueError(f"it has {more:,} bytes after its array")
    return array
