"""Pictures of samples as arrays: images, first frames, masks. Read in the thread of the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.view import SampleView
from midstep.server.array_json import all_finite, as_array, is_tensor

IGNORED = 255
"""In pictures of masks: pixels that no class counts, such as those of class -100."""
LARGEST_CLASS = 254
ROUNDING = 0.02
"""Denormalized values so little outside of 0 to 1 are rounding."""


def tiles_of(shown: ShownSamples) -> Any:
    """The tiles [N, C, h, w] as an array, as they were before they were normalized."""
    return denormalized(stacked(shown.values), shown.view)


def stacked(images: Any) -> Any:
    """Images as one array [N, C, H, W]; smaller ones of a list are filled up with 0."""
    if is_tensor(images):
        return as_array(images)
    arrays = [as_array(image) for image in images]
    channels, height, width = (max(each.shape[axis] for each in arrays) for axis in range(3))
    sheet = np.zeros((len(arrays), channels, height, width), arrays[0].dtype)
    for tile, array in zip(sheet, arrays, strict=True):
        tile[:, : array.shape[1], : array.shape[2]] = array
    return sheet


def denormalized(images: Any, view: SampleView | None) -> Any:
    """`images` [..., C, H, W] times the deviation plus the mean that the view names."""
    if view is None or view.denormalize is None:
        return images
    mean, std = (np.asarray(each, np.float32) for each in view.denormalize)
    channels = images.shape[-3]
    if any(each.size not in (1, channels) for each in (mean, std)):
        return images
    restored = images.astype(np.float32) * std.reshape(-1, 1, 1) + mean.reshape(-1, 1, 1)
    known = restored[np.isfinite(restored)]
    if known.size and known.min() >= -ROUNDING and known.max() <= 1 + ROUNDING:
        return np.clip(restored, 0, 1)
    return restored


def broken_pixels(shown: ShownSamples) -> tuple[Any, list[int] | None]:
    """Which pixels of the tiles stand for a value that is not finite, and how many each sample has.

    Where the whole batch is held, all its pixels count, also those that the tiles leave out.

    Returns:
        The pixels [N, 1, h, w], and the counts; both None if all values are finite.
    """
    images = shown.values if shown.unreduced is None else shown.unreduced
    step = 1 if shown.unreduced is None else shown.layout.stride
    height, width = stacked(shown.values[:1]).shape[-2:] if is_tensor(shown.values) else (0, 0)
    pixels, counts = [], []
    for image in images:
        array = as_array(image)
        is_broken = array.dtype.kind == "f" and not all_finite(array)
        broken = ~np.isfinite(array) if is_broken else None
        counts.append(0 if broken is None else int(broken.sum()))
        pixels.append(None if broken is None else _pooled(broken.any(axis=0), step))
    if not any(counts):
        return None, None
    if not is_tensor(shown.values):
        height, width = stacked(shown.values).shape[-2:]
    mask = np.zeros((len(counts), 1, height, width), bool)
    for tile, broken in zip(mask, pixels, strict=True):
        if broken is not None:
            tile[0, : broken.shape[0], : broken.shape[1]] = broken
    return mask, counts


def _pooled(pixels: Any, step: int) -> Any:
    """[ceil(H / step), ceil(W / step)]: whether any pixel of a block is set."""
    if step == 1:
        return pixels
    height, width = (-(-side // step) * step for side in pixels.shape)
    padded = np.zeros((height, width), bool)
    padded[: pixels.shape[0], : pixels.shape[1]] = pixels
    return padded.reshape(height // step, step, width // step, step).any(axis=(1, 3))


# -- masks ----------------------------------------------------------------------------------------


def mask_of(shown: ShownSamples, layer: str) -> Any:
    """A mask [N, h, w] with a class in each pixel, for the tiles; None if there is none.

    Args:
        shown: the samples.
        layer: `mask`, or `prediction`.
    """
    if layer == "mask":
        values = shown.slices.mask
        kind = shown.description.target_kind
        if values is None or kind not in ("mask", "maybe_mask"):
            return None
        return classes_of(as_array(values), is_sure=kind == "mask")
    values = shown.predictions if shown.prediction_kind == "map" else None
    if values is None or shown.values is None:
        return None
    classes, sides = as_array(values), shown.values.shape[-2:]
    if tuple(classes.shape[-2:]) != tuple(sides):
        step = shown.layout.stride
        classes = classes[:, ::step, ::step]
    return classes_of(classes) if tuple(classes.shape[-2:]) == tuple(sides) else None


def classes_of(mask: Any, *, is_sure: bool = True) -> Any:
    """The class of each pixel as a byte; None if `mask` turns out not to be a mask.

    Numbers below 0, and 255, are `IGNORED`; numbers that do not fit into a byte share one. In a
    mask that has only 0 and 255, 255 is 1.

    Args:
        mask: an array.
        is_sure: whether float values between 0 and 1 are a mask; if not, only 0 and 1 are.
    """
    if mask.dtype.kind == "f":
        if not is_sure and not bool(np.isin(mask, (0, 1)).all()):
            return None
        if bool(((mask == np.round(mask)) | ~np.isfinite(mask)).all()):
            mask = np.nan_to_num(mask, nan=-1, posinf=-1, neginf=-1).astype(np.int64)
        else:
            mask = mask > 0.5
    if mask.dtype.kind == "b":
        return mask.astype(np.uint8)
    wide = mask.astype(np.int64)
    if bool(np.isin(wide, (0, 255)).all()):
        return (wide == 255).astype(np.uint8)
    folded = np.where(wide > IGNORED, 1 + (wide - 1) % LARGEST_CLASS, wide)
    return np.where(wide < 0, IGNORED, folded).astype(np.uint8)


def describe_mask(masks: Sequence[Any], view: SampleView | None) -> list[dict[str, Any]]:
    """The classes that occur in some masks, with their names and shares of the pixels."""
    names = {} if view is None else view.class_names
    counts = np.bincount(np.concatenate([mask.reshape(-1) for mask in masks]), minlength=256)
    total = int(counts.sum()) or 1
    return [
        {
            "id": int(each),
            "name": "ignored" if each == IGNORED else names.get(int(each), str(int(each))),
            "share": float(counts[each] / total),
        }
        for each in np.flatnonzero(counts)
    ]
