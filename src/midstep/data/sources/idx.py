"""IDX files, the format that MNIST comes in: a header with type and shape, then the numbers."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from midstep.core.errors import FormatError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["parse_idx"]

UNSIGNED_BYTE = 0x08
MAX_DIMENSIONS = 8


def parse_idx(data: bytes, name: str) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]

    Args:
        data: the whole file.
        name: what to call it in an error.

    Raises:
        FormatError: it is no IDX file of bytes, or not as long as its header says.
    """
    import numpy as np

    if len(data) < 4 or data[:2] != b"\0\0":
        raise FormatError(f"{name} is no IDX file: it begins with {data[:4].hex() or 'nothing'}")
    kind, dimensions = data[2], data[3]
    if kind != UNSIGNED_BYTE or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise FormatError(
            f"{name} holds type {kind:#04x} in {dimensions} dimensions; expected bytes (0x08)"
        )
    start = 4 + 4 * dimensions
    shape = _shape(data[4:start], dimensions, name)
    if len(data) != start + math.prod(shape):
        raise FormatError(
            f"{name} has {len(data):,} bytes; its header {shape} asks for "
            f"{start + math.prod(shape):,}"
        )
    found: Any = np.frombuffer(data, np.uint8, offset=start)
    return found.reshape(shape)  # type: ignore[no-any-return]


def _shape(header: bytes, dimensions: int, name: str) -> tuple[int, ...]:
    if len(header) != 4 * dimensions:
        raise FormatError(f"{name} ends inside its header")
    return struct.unpack(f">{dimensions}I", header)
