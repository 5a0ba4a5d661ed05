"""Map the array of an opened .npy file into memory. `np.load` maps a file only by its name."""

from __future__ import annotations

import math
import os
import tokenize
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray


def map_array(file: BinaryIO) -> NDArray[Any]:
    """The array of a .npy file, read-only.

    Raises:
        ValueError: if it is not a .npy file, is cut off or longer than its array, or has a pickled
            object: unpickling runs code.
    """
    shape, is_fortran, dtype = _read_header(file)
    if dtype.hasobject:
        raise ValueError("it has pickled objects, which are not loaded")
    # Before numpy computes with the shape: its integers overflow.
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"its header is damaged: the shape is {shape}")
    start = file.tell()
    more = os.fstat(file.fileno()).st_size - start - math.prod(shape) * dtype.itemsize
    if more > 0:
        raise ValueError(f"it has {more:,} bytes after its array")
    if more < 0:
        raise ValueError(f"{-more:,} bytes of its array are missing")
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return np.memmap(file, dtype, "r", start, shape, order)


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    major, _ = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    )
    try:
        return read(file)
    except (TypeError, OverflowError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"its header is damaged: {error}") from None
