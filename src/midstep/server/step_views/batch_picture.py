"""A batch as a response: the kind of its samples, and a PNG grid of them."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from midstep.control import CapturedBatch
from midstep.core.png import encode_png
from midstep.server.array_json import as_array, dtype_name, is_tensor, numbers, shape_of

Kind = Literal["images", "tokens", "vectors", "other"]

MAX_SHOWN = 512
"""Samples in the picture or the rows."""
COLUMNS = 16
LEAST_SQUARE = 64
"""Vectors of at least this many numbers (8 × 8) are shown as images if the number is a square."""
MAX_PIXELS = 4_000_000
"""In a larger grid each tile has only every second, third, … pixel."""
ROW_VALUES = 64
"""First values of a sample that are shown for tokens and vectors."""
_NUMERIC = "biuf"


def describe_batch(captured: CapturedBatch) -> dict[str, Any]:
    """A captured batch as `BatchOut`."""
    tensor = main_tensor(captured.batch)
    array = None if tensor is None else _as_numbers(tensor)
    count = 0 if tensor is None else (shape_of(tensor) or [1])[0]
    shown = min(count, MAX_SHOWN)
    return {
        "step": captured.step,
        "loss": captured.loss,
        "shape": [] if tensor is None else shape_of(tensor),
        "dtype": "none" if tensor is None else dtype_name(tensor),
        "count": count,
        "shown": shown,
        **_picture(array, shown),
        "labels": _per_sample(captured.labels, shown),
        "losses": _per_sample(captured.losses, shown),
        "sample_ids": _ids(captured.sample_ids, shown),
    }


def _picture(array: Any, shown: int) -> dict[str, Any]:
    """The fields `kind`, `png`, `grid` and `rows` of `BatchOut`."""
    empty: dict[str, Any] = {"kind": "other", "png": None, "grid": None, "rows": None}
    if array is None or shown == 0 or array.ndim == 0:
        return empty
    tiles = tiles_of(array[:shown])
    if tiles is not None:
        png, grid = _grid(tiles, array.dtype.kind)
        return {**empty, "kind": "images", "png": png, "grid": grid}
    if array.ndim != 2:
        return empty
    kind: Kind = "tokens" if array.dtype.kind in "iu" else "vectors"
    return {**empty, "kind": kind, "rows": numbers(array[:shown, :ROW_VALUES])}


def main_tensor(batch: Any) -> Any:
    """The tensor that is most likely the input of the model.

    The first float tensor with two or more dimensions, else the first with two or more, else the
    first tensor.
    """
    tensors = list(_tensors(batch, set()))
    rows = [tensor for tensor in tensors if len(tensor.shape) >= 2]
    floats = [tensor for tensor in rows if "float" in dtype_name(tensor)]
    return next(iter(floats or rows or tensors), None)


def _tensors(value: Any, seen: set[int], depth: int = 0) -> Iterator[Any]:
    """All tensors inside `value`. A container is walked once; `seen` has the ids of those done."""
    if is_tensor(value):
        yield value
    elif depth < 4 and isinstance(value, Mapping | list | tuple) and id(value) not in seen:
        seen.add(id(value))
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item, seen, depth + 1)


def _as_numbers(tensor: Any) -> Any:
    try:
        array = as_array(tensor)
    except (TypeError, RuntimeError):
        return None
    return array if array.dtype.kind in _NUMERIC else None


def tiles_of(array: Any) -> Any:
    """Samples as tiles [samples, height, width, channels]; None if they are not images."""
    shape = array.shape
    if array.ndim == 4 and shape[1] in (1, 3) and min(shape[2:]) >= 2:
        return array.transpose(0, 2, 3, 1)
    if array.ndim == 3 and min(shape[1:]) >= 2:
        return array[..., None]
    side = math.isqrt(shape[1]) if array.ndim == 2 else 0
    if side * side >= LEAST_SQUARE and side * side == shape[1] and array.dtype.kind == "f":
        return array.reshape(shape[0], side, side, 1)
    return None


def _grid(tiles: Any, kind: str) -> tuple[str, dict[str, Any]]:
    """The base64 PNG of all tiles, and the fields of `GridOut`."""
    samples, height, width, _ = tiles.shape
    stride = max(1, math.ceil(math.sqrt(samples * height * width / MAX_PIXELS)))
    tiles = tiles[:, ::stride, ::stride]
    low, high = _range(tiles, kind)
    sheet, columns, rows = _sheet(_grey(tiles, low, high))
    grid = {
        "columns": columns,
        "rows": rows,
        "tile_width": tiles.shape[2],
        "tile_height": tiles.shape[1],
        "channels": tiles.shape[3],
        "low": low,
        "high": high,
    }
    return base64.b64encode(encode_png(sheet)).decode(), grid


def _range(tiles: Any, kind: str) -> tuple[float, float]:
    """The values drawn black and white: 0 to 255 for bytes, 0 to 1 if all fit, else the range."""
    low, high = float(tiles.min()), float(tiles.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = tiles[np.isfinite(tiles)]
        if finite.size == 0:
            return 0.0, 1.0
        low, high = float(finite.min()), float(finite.max())
    # Fixed ranges where they are known: the same brightness means the same value in each batch.
    if kind == "u" and tiles.dtype.itemsize == 1:
        return 0.0, 255.0
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high if high > low else low + 1.0


def _grey(tiles: Any, low: float, high: float) -> Any:
    """Values as bytes; NaN and -inf are black, inf is white."""
    scaled = tiles.astype(np.float64)
    scaled /= 2  # halved first: high - low overflows for values near the largest float
    scaled -= low / 2
    scaled /= high / 2 - low / 2
    np.fmax(scaled, 0, out=scaled)  # fmax of 0 and NaN is 0
    np.minimum(scaled, 1, out=scaled)
    scaled *= 255
    scaled += 0.5
    return scaled.astype(np.uint8)


def _sheet(tiles: Any) -> tuple[Any, int, int]:
    """Tiles side by side, row after row: tile i at column i % columns, row i // columns."""
    samples, height, width, channels = tiles.shape
    columns = min(COLUMNS, samples)
    rows = math.ceil(samples / columns)
    padded = np.zeros((rows * columns, height, width, channels), np.uint8)
    padded[:samples] = tiles
    cells = padded.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return cells.reshape(rows * height, columns * width, channels), columns, rows


def _per_sample(values: Any, shown: int) -> list[Any] | None:
    """One number or text for each shown sample; None if the values have another form."""
    if is_tensor(values):
        array = _as_numbers(values)
        flat = None if array is None else array.reshape(-1)
        if flat is None or flat.size < shown or flat.size != array.shape[0]:
            return None
        return numbers(flat[:shown])
    if isinstance(values, list | tuple) and len(values) >= shown:
        return [_label(value) for value in values[:shown]]
    return None


def _label(value: Any) -> Any:
    if hasattr(value, "item") and not isinstance(value, str):
        return value.item() if getattr(value, "ndim", 0) == 0 else str(shape_of(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return str(value)[:64]


def _ids(values: Any, shown: int) -> list[int] | None:
    ids = _per_sample(values, shown)
    is_valid = ids is not None and all(isinstance(value, int) for value in ids)
    return ids if is_valid else None
