"""One array out of a safetensors file, read from an open file and checked against its length."""

from __future__ import annotations

import json
import os
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from midstep.core.errors import FormatError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["array_in", "arrays_in"]

MOST_HEADER_BYTES = 16 << 20
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def arrays_in(file: BinaryIO) -> dict[str, Any]:
    """Types, shapes and places of the arrays in a safetensors file."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MOST_HEADER_BYTES, os.fstat(file.fileno()).st_size - 8):
        raise FormatError(f"the header of {length} bytes does not fit the file")
    try:
        told = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the header is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise FormatError("the header is no table of arrays")
    return {name: {**each, "start": 8 + length} for name, each in told.items() if _is_entry(each)}


def _is_entry(each: Any) -> bool:
    return isinstance(each, dict) and {"dtype", "shape", "data_offsets"} <= set(each)


def array_in(file: BinaryIO, name: str, *, most_cells: int) -> np.ndarray[Any, Any] | None:
    """The array of this name in 64 bits, None where there is none; nothing else is read."""
    import numpy as np

    entry = arrays_in(file).get(name)
    if entry is None:
        return None
    kind = _TYPES.get(str(entry["dtype"]))
    try:
        shape = [int(side) for side in entry["shape"]]
        first, last = (int(at) for at in entry["data_offsets"])
    except (TypeError, ValueError):
        raise FormatError(f"{name} has no readable shape") from None
    cells = prod(shape)
    if kind is None or min(shape, default=0) < 0 or last - first != cells * int(kind[2]):
        raise FormatError(f"{name} has another length than its shape and type say")
    if cells > most_cells:
        raise FormatError(f"{name} has {cells:,} cells, more than the {most_cells:,} sent at once")
    file.seek(entry["start"] + first)
    data = file.read(last - first) if first >= 0 else b""
    if len(data) != last - first:
        raise FormatError(f"{name} runs past the end of the file")
    found = np.frombuffer(data, kind).reshape(shape)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float64)
