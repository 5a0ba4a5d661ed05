"""The kinds of samples: which tensor is of which kind, and what a page shows of some samples.

Slices are views: nothing is copied here. The same functions serve the training thread, which copies
a slice of a running step, and readers, which slice a batch that was captured whole. Tensors and
arrays are used by their methods: `control` works without torch and numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from midstep.control.samples.tensor_facts import dtype_name, is_dense, rows_of

SampleKind = Literal[
    "images",
    "image_mask",
    "frames",
    "text",
    "tokens",
    "table",
    "vectors",
    "audio",
    "series",
    "nested",
    "other",
]
KINDS: tuple[SampleKind, ...] = get_args(SampleKind)
PICTURES: tuple[SampleKind, ...] = ("images", "image_mask", "frames")
"""Kinds that are shown as tiles."""
LINES: tuple[SampleKind, ...] = ("audio", "series")
"""Kinds that are shown as curves."""
TILE_PIXELS = 96
"""Longest side of a tile. A larger image has only every second, third, … pixel in its tile."""
LEAST_SQUARE = 64
"""Vectors of at least this many numbers (8 × 8) are shown as images if the number is a square."""
ROW_VALUES = 64
"""First values of a sample that are shown of a vector."""
TOKEN_VALUES = 256
"""First tokens of a sample that are shown."""
TABLE_VALUES = 128
"""First values of a row whose columns have names."""
ROWS: Mapping[str, int] = {
    "tokens": TOKEN_VALUES,
    "vectors": ROW_VALUES,
    "table": TABLE_VALUES,
}
"""Kinds that are shown as rows of values, and how many."""
LINE_VALUES = 16_384
"""Values of a curve. A longer one has only every second, third, … value."""
LINE_CHANNELS = 8
"""First channels of a series that are shown."""
AUDIO_VALUES = 2_000
"""One or two channels with at least this many values are a sound: 1/8 s at 16 kHz."""
FLAT_AUDIO_VALUES = 4_000
"""The same without an axis of channels, where a long vector could be something else."""
SERIES_CHANNELS = 16
"""A matrix is a series, and no image, if it has at most so many channels, …"""
SERIES_ASPECT = 4
"""… and is so many times longer than it has channels."""
STACK_CHANNELS = range(2, 17)
"""An image with so many channels, but not three, is shown channel by channel."""
COLOURS = (1, 3)


@dataclass(frozen=True, kw_only=True)
class SampleLayout:
    """How the samples of a tensor are shown."""

    kind: SampleKind
    shape: tuple[int, ...] = ()
    """Shape of the whole tensor; for texts and columns only the number of samples."""
    dtype: str = "none"
    channels: int = 0
    """Channels of an image or of a series."""
    height: int = 0
    """Height of an image at full resolution."""
    width: int = 0
    frames: int = 0
    """Images of a sample of the kind `frames`."""
    frame_word: Literal["frame", "channel"] = "frame"
    """What one of them is."""
    order: tuple[int, ...] | None = None
    """The axes in the order N, T, C, H, W of frames, N, C, H, W of images, N, C, T of a series."""
    length: int = 0
    """Points in time of a series."""
    is_list: bool = False
    """Whether the images are a list, perhaps of different sizes."""

    @property
    def count(self) -> int:
        """Samples in the batch."""
        return (self.shape or (1,))[0] if self.dtype != "none" else 0

    @property
    def is_picture(self) -> bool:
        """Whether the samples are shown as tiles."""
        return self.kind in PICTURES

    @property
    def is_line(self) -> bool:
        """Whether the samples are shown as curves."""
        return self.kind in LINES

    @property
    def stride(self) -> int:
        """A tile shows every n-th row and column of its image, a curve every n-th value."""
        if self.is_line:
            shown = max(1, min(self.channels, LINE_CHANNELS))
            return max(1, math.ceil(self.length * shown / LINE_VALUES))
        return max(1, math.ceil(max(self.height, self.width) / TILE_PIXELS))

    def view(self, tensor: Any, first: int, stop: int, *, stride: int | None = None) -> Any:
        """The samples as a view; None for kinds that no tensor has.

        Images and the first frames are [N, C, h, w], curves [N, C, T], others [N, values].

        Args:
            tensor: the tensor that this layout describes.
            first: the first sample.
            stop: the sample after the last one.
            stride: 1 for full resolution; that of a tile when left out.
        """
        step = self.stride if stride is None else stride
        if self.is_list:
            return [image[:, ::step, ::step] for image in tensor[first:stop]]
        if self.is_picture:
            images = self._images(tensor[first:stop])
            return images[:, :, ::step, ::step]
        if self.is_line:
            return self._lines(tensor[first:stop])[:, :LINE_CHANNELS, ::step]
        if self.kind in ROWS:
            return rows_of(tensor[first:stop])[:, : ROWS[self.kind]]
        return None

    def whole_sample(self, tensor: Any, index: int) -> Any:
        """One sample at full resolution: [C, H, W], [T, C, H, W] or [C, T], else as it is."""
        chosen = tensor[index : index + 1]
        if self.is_list:
            return chosen[0]
        if self.kind == "frames":
            return self._stacked(chosen)[0]
        if self.is_picture:
            return self._images(chosen)[0]
        return self._lines(chosen)[0] if self.is_line else chosen[0]

    def _images(self, chosen: Any) -> Any:
        if self.kind == "frames":
            return self._stacked(chosen)[:, 0]
        if self.order is not None:
            return permuted(chosen, self.order)
        return chosen.reshape((len(chosen), self.channels, self.height, self.width))

    def _stacked(self, chosen: Any) -> Any:
        if self.order is not None:
            return permuted(chosen, self.order)
        return chosen.reshape((len(chosen), self.frames, self.channels, self.height, self.width))

    def _lines(self, chosen: Any) -> Any:
        if self.order is not None:
            return permuted(chosen, self.order)
        return chosen.reshape((len(chosen), self.channels, self.length))


NO_SAMPLES = SampleLayout(kind="other")


def permuted(value: Any, order: Sequence[int]) -> Any:
    """A tensor or an array with its axes in another order."""
    return value.permute(*order) if hasattr(value, "permute") else value.transpose(order)


def layout_of(tensor: Any, wanted: SampleKind | None = None) -> SampleLayout:
    """How the samples of `tensor` are shown; `NO_SAMPLES` if it is None.

    Args:
        tensor: with one sample in each row of its first axis.
        wanted: the kind that its name, or the user, says. If the shape does not fit that kind, the
            shape decides.
    """
    if tensor is None:
        return NO_SAMPLES
    shape, dtype = tuple(int(side) for side in tensor.shape), dtype_name(tensor)
    known: dict[str, Any] = {"shape": shape, "dtype": dtype}
    if not shape or 0 in shape or not is_dense(tensor):
        return SampleLayout(kind="other", **known)
    if wanted is not None:
        named = _as_kind(wanted, shape, dtype)
        if named is not None:
            return SampleLayout(**known, **named)
    return SampleLayout(**known, **_guess(shape, dtype))


Fields = dict[str, Any]


def _guess(shape: tuple[int, ...], dtype: str) -> Fields:
    """The fields of the layout that the shape alone suggests."""
    rank, is_float = len(shape), "float" in dtype
    if rank in (4, 5):
        return _image(shape) or _frames(shape) or {"kind": "other"}
    if rank == 3:
        return _audio(shape, is_float) or _series(shape, is_float) or _image(shape) or _no_kind()
    if rank != 2:
        return _no_kind()
    is_bytes = dtype == "uint8"
    square = _square(shape) if is_float or is_bytes else None
    if square is not None:
        return square
    if dtype.startswith(("int", "uint")):
        return {"kind": "tokens"}
    return _audio(shape, is_float) or {"kind": "vectors"}


def _no_kind() -> Fields:
    return {"kind": "other"}


def _as_kind(wanted: SampleKind, shape: tuple[int, ...], dtype: str) -> Fields | None:
    """The fields of the layout of a kind that was named; None if the shape does not fit it."""
    rank = len(shape)
    if wanted in ("images", "image_mask"):
        return _image(shape) or (_square(shape) if rank == 2 else None)
    if wanted == "frames":
        return _frames(shape) or (_plain_frames(shape) if rank == 4 else None)
    if wanted == "tokens":
        is_integer = dtype.startswith(("int", "uint"))
        return {"kind": "tokens"} if rank == 2 and is_integer else None
    if wanted == "vectors":
        return {"kind": "vectors"} if rank >= 2 else None
    if wanted in LINES and "bool" not in dtype:
        return _line(shape, wanted)
    return None


def _image(shape: tuple[int, ...]) -> Fields | None:
    """Images [N, C, H, W], [N, H, W, C] or [N, H, W]."""
    if len(shape) == 4 and shape[1] in COLOURS and min(shape[2:]) >= 2:
        return _sides("images", *shape[1:])
    if len(shape) == 4 and shape[3] in COLOURS and min(shape[1:3]) >= 2:
        return _sides("images", shape[3], *shape[1:3]) | {"order": (0, 3, 1, 2)}
    if len(shape) == 3 and min(shape[1:]) >= 2:
        return _sides("images", 1, *shape[1:])
    return None


def _sides(kind: SampleKind, channels: int, height: int, width: int) -> Fields:
    return {"kind": kind, "channels": channels, "height": height, "width": width}


def _square(shape: tuple[int, ...]) -> Fields | None:
    """Images that were flattened."""
    side = math.isqrt(shape[1])
    is_square = side * side == shape[1] >= LEAST_SQUARE
    return _sides("images", 1, side, side) if is_square else None


def _frames(shape: tuple[int, ...]) -> Fields | None:
    """Sequences [N, T, C, H, W] or [N, C, T, H, W], and images with an odd number of channels."""
    if len(shape) == 5 and min(shape[3:]) >= 2:
        if shape[2] in COLOURS:
            return _sides("frames", *shape[2:]) | {"frames": shape[1]}
        if shape[1] in COLOURS:
            order = (0, 2, 1, 3, 4)
            return _sides("frames", shape[1], *shape[3:]) | {"frames": shape[2], "order": order}
    if len(shape) == 4 and shape[1] in STACK_CHANNELS and min(shape[2:]) >= 8:
        return _plain_frames(shape) | {"frame_word": "channel"}
    return None


def _plain_frames(shape: tuple[int, ...]) -> Fields:
    return _sides("frames", 1, *shape[2:]) | {"frames": shape[1]}


def _audio(shape: tuple[int, ...], is_float: bool) -> Fields | None:
    """Sounds [N, T], [N, 1, T] or [N, 2, T]."""
    least = FLAT_AUDIO_VALUES if len(shape) == 2 else AUDIO_VALUES
    channels = shape[1] if len(shape) == 3 else 1
    is_audio = is_float and channels in (1, 2) and shape[-1] >= least
    return _line(shape, "audio") if is_audio else None


def _series(shape: tuple[int, ...], is_float: bool) -> Fields | None:
    """Series [N, T, C] or [N, C, T] with few channels: far longer than wide."""
    shorter, longer = sorted(shape[1:])
    is_series = shorter <= SERIES_CHANNELS and longer >= SERIES_ASPECT * shorter and longer >= 16
    return _line(shape, "series") if is_float and is_series else None


def _line(shape: tuple[int, ...], kind: SampleKind) -> Fields | None:
    """A curve; the longer axis is time."""
    if len(shape) == 2:
        return {"kind": kind, "channels": 1, "length": shape[1]}
    if len(shape) != 3:
        return None
    if shape[1] <= shape[2]:
        return {"kind": kind, "channels": shape[1], "length": shape[2]}
    return {"kind": kind, "channels": shape[2], "length": shape[1], "order": (0, 2, 1)}


def layout_of_images(images: Sequence[Any]) -> SampleLayout:
    """How a list of images [C, H, W] is shown; `height` and `width` are those of the largest."""
    if not all(is_dense(image) and 0 not in tuple(image.shape) for image in images):
        return NO_SAMPLES
    channels, height, width = (max(int(each.shape[axis]) for each in images) for axis in range(3))
    return SampleLayout(
        shape=(len(images), channels, height, width),
        dtype=dtype_name(images[0]),
        is_list=True,
        **_sides("images", channels, height, width),
    )
