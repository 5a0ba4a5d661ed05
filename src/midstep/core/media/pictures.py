"""Pictures of arrays: values as bytes, several side by side, PNG."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any

from midstep.core.png import encode_png

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Bytes = NDArray[np.uint8]

GAP = 2
"""Pixels between the pictures of a sheet; they are transparent."""
NAN_COLOUR = (232, 0, 200)
"""Colour of pixels that are not finite, as everywhere on the page."""
OPAQUE = 255
_TYPICAL_RANGES = {"f": ((0.0, 1.0), (-1.0, 1.0)), "b": ((0.0, 1.0),)}
"""By kind of dtype."""


def draw(array: Array, axes: str) -> tuple[Bytes, dict[str, Any]]:
    """One picture [height, width, channels] of an array, and what is known of it.

    Args:
        array: as a `Pixels` holds it.
        axes: what its dimensions are.

    >>> import numpy as np
    >>> picture, about = draw(np.zeros((3, 4, 5)), "CHW")
    >>> picture.shape, about["low"], about["high"]
    ((4, 5, 3), 0.0, 1.0)
    """
    import numpy as np

    if axes.endswith("CHW"):
        array = np.moveaxis(array, -3, -1)
    elif axes == "HW":
        array = array[..., None]
    low, high = value_range(array)
    pixels, bad = as_bytes(array, low, high)
    about = {"low": low, "high": high, "nonfinite": int(bad.sum())}
    if about["nonfinite"]:
        pixels = _marked(pixels, np.any(bad, axis=-1))
    if axes[0] == "N":
        about["tiles"] = len(pixels)
        pixels = sheet(pixels)
    return pixels, about


def value_range(array: Array) -> tuple[float, float]:
    """Which values are drawn black and white.

    Bytes stay as they are. Floats from 0 to 1, or from −1 to 1, keep that range; anything else is
    stretched from its lowest to its highest finite value.

    >>> import numpy as np
    >>> value_range(np.array([-0.2, 0.7])), value_range(np.array([3.0, 9.0, np.inf]))
    ((-1.0, 1.0), (3.0, 9.0))
    """
    import numpy as np

    if array.dtype == np.uint8:
        return 0.0, 255.0
    is_float = array.dtype.kind == "f"
    finite = array[np.isfinite(array)] if is_float else array
    lowest, highest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    for low, high in _TYPICAL_RANGES.get(array.dtype.kind, ()):
        if low <= lowest and highest <= high:
            return low, high
    return (lowest, highest) if highest > lowest else (lowest - 0.5, highest + 0.5)


def as_bytes(array: Array, low: float, high: float) -> tuple[Bytes, NDArray[np.bool_]]:
    """Values as bytes from 0 to 255, and which of them are not finite."""
    import numpy as np

    if array.dtype == np.uint8 and (low, high) == (0.0, 255.0):
        return array, np.zeros((1,) * array.ndim, bool)
    values: Array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    bad = ~np.isfinite(values)
    values[bad] = low
    with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float
        scaled = np.nan_to_num((values - low) * (OPAQUE / (high - low)))
    return np.clip(np.rint(scaled), 0, OPAQUE).astype(np.uint8), bad


def _marked(pixels: Bytes, bad: Array) -> Bytes:
    """Colour pictures in which the pixels that are not finite have a colour of their own."""
    import numpy as np

    if pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    pixels[bad] = (*NAN_COLOUR, OPAQUE)[: pixels.shape[-1]]
    return pixels


def sheet(pixels: Bytes) -> Bytes:
    """Pictures [N, height, width, channels] side by side, in about as many rows as columns.

    >>> import numpy as np
    >>> sheet(np.zeros((5, 8, 8, 1), np.uint8)).shape
    (18, 28, 2)
    """
    import numpy as np

    count, height, width, channels = pixels.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    has_alpha = channels in (2, 4)
    size = rows * (height + GAP) - GAP, columns * (width + GAP) - GAP
    whole = np.zeros((*size, channels if has_alpha else channels + 1), np.uint8)
    for index, picture in enumerate(pixels):
        row, column = divmod(index, columns)
        top, left = row * (height + GAP), column * (width + GAP)
        tile = whole[top : top + height, left : left + width]
        tile[..., :channels] = picture
        if not has_alpha:
            tile[..., channels] = OPAQUE
    return whole


def encode(pixels: Bytes, most_bytes: int) -> tuple[bytes, Bytes, int]:
    """A PNG of at most so many bytes, what it shows, and every how many pixels it has."""
    every, png = 1, _png(pixels)
    while len(png) > most_bytes:
        every, pixels = every * 2, pixels[::2, ::2]
        png = _png(pixels)
    return png, pixels, every


def _png(pixels: Bytes) -> bytes:
    # Nobody waits for this thread, so the files are made smaller than those of live pictures.
    is_colour = pixels.shape[-1] > 2
    strategy = zlib.Z_DEFAULT_STRATEGY
    return encode_png(pixels, level=6, strategy=strategy, filtered=is_colour)
