"""Some samples of a batch, reduced to what the page shows of them.

Slices are views: nothing is copied here. The same functions serve the training thread, which copies
a slice of a running step, and readers, which slice a batch that was captured whole. Tensors and
arrays are used by their methods: `control` works without torch and numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

SampleKind = Literal["images", "tokens", "vectors", "other"]
TILE_PIXELS = 96
"""Longest side of a tile. A larger image has only every second, third, … pixel in its tile."""
LEAST_SQUARE = 64
"""Vectors of at least this many numbers (8 × 8) are shown as images if the number is a square."""
ROW_VALUES = 64
"""First values of a sample that are shown for tokens and vectors."""


def dtype_name(value: Any) -> str:
    """The element type without the prefix `torch.`."""
    return str(value.dtype).removeprefix("torch.")


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or an array; a numpy scalar is not."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "reshape")


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


@dataclass(frozen=True, kw_only=True)
class SampleLayout:
    """How the samples of a tensor are shown."""

    kind: SampleKind
    shape: tuple[int, ...] = ()
    """Of the whole tensor."""
    dtype: str = "none"
    channels: int = 0
    height: int = 0
    """Of an image at full resolution."""
    width: int = 0

    @property
    def count(self) -> int:
        """Samples in the batch."""
        return (self.shape or (1,))[0] if self.dtype != "none" else 0

    @property
    def stride(self) -> int:
        """A tile has one of so many rows and columns of its image."""
        return max(1, math.ceil(max(self.height, self.width) / TILE_PIXELS))

    def view(self, tensor: Any, first: int, stop: int, *, stride: int | None = None) -> Any:
        """The samples as a view: images [N, C, h, w], else [N, values]; None for kind `other`.

        Args:
            tensor: the tensor that this layout describes.
            first: the first sample.
            stop: the sample after the last one.
            stride: 1 for full resolution; that of a tile when left out.
        """
        if self.kind == "other":
            return None
        chosen = tensor[first:stop]
        if self.kind != "images":
            return chosen[:, :ROW_VALUES]
        images = chosen.reshape((len(chosen), self.channels, self.height, self.width))
        step = self.stride if stride is None else stride
        return images[:, :, ::step, ::step]


NO_SAMPLES = SampleLayout(kind="other")


def layout_of(tensor: Any) -> SampleLayout:
    """How the samples of `tensor` are shown; `NO_SAMPLES` if it is None."""
    if tensor is None:
        return NO_SAMPLES
    shape, dtype = tuple(int(side) for side in tensor.shape), dtype_name(tensor)
    other = SampleLayout(kind="other", shape=shape, dtype=dtype)
    if not shape or shape[0] == 0 or not _is_dense(tensor):
        return other
    sides = _image_sides(shape, is_float="float" in dtype)
    if sides is not None:
        channels, height, width = sides
        return SampleLayout(
            kind="images", shape=shape, dtype=dtype, channels=channels, height=height, width=width
        )
    if len(shape) != 2:
        return other
    is_integer = dtype.startswith(("int", "uint"))
    return SampleLayout(kind="tokens" if is_integer else "vectors", shape=shape, dtype=dtype)


def _image_sides(shape: tuple[int, ...], *, is_float: bool) -> tuple[int, int, int] | None:
    """Channels, height and width of each sample; None if the samples are not images."""
    if len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) >= 2:
        return shape[1], shape[2], shape[3]
    if len(shape) == 3 and min(shape[1:]) >= 2:
        return 1, shape[1], shape[2]
    side = math.isqrt(shape[1]) if len(shape) == 2 else 0
    if is_float and side * side >= LEAST_SQUARE and side * side == shape[1]:
        return 1, side, side
    return None


def _is_dense(tensor: Any) -> bool:
    """Whether it has real numbers that can be sliced; not on `meta`, sparse, complex, objects."""
    kind = getattr(tensor.dtype, "kind", None)  # of an array
    if kind is not None:
        return kind in "biuf"
    is_strided = str(getattr(tensor, "layout", "")) == "torch.strided"
    is_real = not dtype_name(tensor).startswith(("complex", "q"))
    return is_strided and is_real and tensor.device.type != "meta"


def per_sample(values: Any, count: int, first: int, stop: int) -> Any:
    """The entries of some samples; None if `values` does not have one for each sample."""
    if is_tensor(values):
        shape = tuple(values.shape)
        fits = bool(shape) and shape[0] == count and math.prod(shape) == count
        return values.reshape(-1)[first:stop] if fits else None
    if isinstance(values, list | tuple | range) and len(values) >= stop:
        return values[first:stop]
    return None
