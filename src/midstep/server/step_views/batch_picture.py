"""Pictures of a batch: tiles of the shown samples side by side, and one sample in full.

They are encoded in the thread of the request. numpy and zlib release the interpreter for most of
that time, so the training thread runs meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from midstep.core.png import encode_png
from midstep.server.array_json import all_finite, as_array

COLUMNS = 16
INLINE_BYTES = 150_000
"""Limit of a picture inside JSON; as base64 it is a third longer."""
LEAST_TILE = 4
_EXACT_IN_FLOAT32 = ("uint8", "int8", "bool", "float16", "float32")
LARGEST_IN_FLOAT32 = 1e30


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Tiles of samples, side by side, row after row."""

    tiles: Any
    """[N, C, h, w]."""
    mask: Any
    """[N, 1 or C, h, w]: where values are not finite; None if all are."""
    fields: dict[str, Any]
    """The fields of `GridOut`."""

    @property
    def nonfinite(self) -> int:
        """Values of the tiles that are not finite."""
        return 0 if self.mask is None else int(self.mask.sum())

    def png(self) -> bytes:
        """The picture as a file."""
        shades = to_bytes(self.tiles, self.fields["low"], self.fields["high"])
        return _encode(_sheet(_with_alpha(shades, self.mask), self.fields["columns"]))


def make_grid(
    values: Any, *, stride: int, full_width: int, full_height: int, mask: Any = None
) -> Grid:
    """The geometry of the picture; `png` makes the picture itself.

    Args:
        values: tiles [N, C, h, w], a tensor or an array.
        stride: how many pixels of the image a pixel of its tile stands for.
        full_width: width of an image.
        full_height: height of an image.
        mask: pixels [N, 1, h, w] that stand for values that are not finite; those of the tiles
            themselves if left out.
    """
    tiles = as_array(values)
    mask = nonfinite_mask(tiles) if mask is None else mask
    low, high = value_range(tiles, nonfinite_mask(tiles))
    samples, channels, height, width = tiles.shape
    columns = min(COLUMNS, samples)
    fields = {
        "columns": columns,
        "rows": math.ceil(samples / columns),
        "tile_width": width,
        "tile_height": height,
        "channels": channels,
        "low": low,
        "high": high,
        "stride": stride,
        "full_width": full_width,
        "full_height": full_height,
    }
    return Grid(tiles=tiles, mask=mask, fields=fields)


def small_png(grid: Grid) -> tuple[bytes, Grid]:
    """A PNG of at most 150 kB, with coarser tiles if it takes them; and its grid."""
    values, mask = grid.tiles, grid.mask
    geometry = {name: grid.fields[name] for name in ("stride", "full_width", "full_height")}
    png, step = grid.png(), 1
    shortest = min(values.shape[2:])
    while len(png) > INLINE_BYTES and shortest // (step + 1) >= LEAST_TILE:
        step = max(step + 1, math.floor(step * math.sqrt(len(png) / INLINE_BYTES)))
        coarse = {**geometry, "stride": geometry["stride"] * step}
        kept = None if mask is None else mask[:, :, ::step, ::step]
        grid = make_grid(values[:, :, ::step, ::step], mask=kept, **coarse)
        png = grid.png()
    return png, grid


def mask_png(classes: Any, columns: int) -> bytes:
    """The PNG of masks [N, h, w], tile by tile as in the picture of the images."""
    return encode_png(_sheet(classes[:, None], columns), filtered=False)


def sample_png(values: Any) -> bytes:
    """The PNG of one sample [C, h, w]."""
    tiles = as_array(values)[None]
    mask = nonfinite_mask(tiles)
    low, high = value_range(tiles, mask)
    return _encode(_with_alpha(to_bytes(tiles, low, high), mask)[0].transpose(1, 2, 0))


def _encode(pixels: Any) -> bytes:
    """A PNG; colour images are photographs more often than not."""
    return encode_png(pixels, filtered=pixels.shape[2] >= 3)


def nonfinite_mask(tiles: Any) -> Any:
    """Where values are not finite; None if all are."""
    if tiles.dtype.kind != "f" or all_finite(tiles):
        return None
    return ~np.isfinite(tiles)


def value_range(tiles: Any, mask: Any = None) -> tuple[float, float]:
    """The values drawn black and white: 0 to 255 for bytes, 0 to 1 if all fit, else the range.

    Args:
        tiles: the values.
        mask: where they are not finite; None if all are.
    """
    # Fixed ranges where they are known: the same brightness means the same value in each batch.
    if tiles.dtype == np.uint8:
        return 0.0, 255.0
    known = tiles if mask is None else tiles[~mask]
    if known.size == 0:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high if high > low else low + 1.0


def to_bytes(tiles: Any, low: float, high: float) -> Any:
    """Values as bytes; NaN and -inf are black, inf is white."""
    if tiles.dtype == np.uint8 and (low, high) == (0.0, 255.0):
        return tiles
    is_small = max(abs(low), abs(high)) < LARGEST_IN_FLOAT32
    narrow = is_small and tiles.dtype.name in _EXACT_IN_FLOAT32
    scaled = tiles.astype(np.float32 if narrow else np.float64)
    with np.errstate(all="ignore"):
        scaled /= 2  # halved first: high - low overflows for values near the largest float
        scaled -= low / 2
        scaled /= high / 2 - low / 2
        np.fmax(scaled, 0, out=scaled)  # fmax of 0 and NaN is 0
        np.minimum(scaled, 1, out=scaled)
        scaled *= 255
        scaled += 0.5
    return scaled.astype(np.uint8)


def _with_alpha(tiles: Any, mask: Any) -> Any:
    """Tiles [N, C, h, w] with alpha 0 where a value was not finite; unchanged without a mask."""
    if mask is None:
        return tiles
    alpha = np.where(mask.any(axis=1, keepdims=True), np.uint8(0), np.uint8(255))
    return np.concatenate([tiles, alpha], axis=1)


def _sheet(tiles: Any, columns: int) -> Any:
    """Tiles side by side, row after row: tile i at column i % columns, row i // columns."""
    samples, channels, height, width = tiles.shape
    rows = math.ceil(samples / columns)
    # Unused places in the last row are black and, where there is alpha, opaque.
    padded = np.zeros((rows * columns, channels, height, width), np.uint8)
    if channels in (2, 4):
        padded[samples:, -1] = 255
    padded[:samples] = tiles
    cells = padded.reshape(rows, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    return cells.reshape(rows * height, columns * width, channels)
