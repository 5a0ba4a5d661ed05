"""Screenshots as small files: PNG, with few colours if it is large, and GIF of several screenshots.

Pillow comes with the tools for developers (matplotlib needs it); midstep itself does without.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLOURS = 256
VIVID = 48
"""Difference of the largest and the smallest channel from which on a colour is vivid."""
VIVID_COLOURS = 96
LARGEST_PNG = 200_000
LARGEST_GIF = 1_500_000
"""Bytes; a repository keeps every version of a picture for ever."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A screenshot and how long it is shown."""

    png: bytes
    seconds: float


def save_png(png: bytes, path: Path) -> None:
    """Save a screenshot as it is, or with 256 colours if it would be too large.

    Fewer colours make other colours of those that few pixels have, such as the one of a badge.
    """
    picture = _open(png)
    picture.save(path, optimize=True)
    if path.stat().st_size > LARGEST_PNG:
        palette = _palette(np.asarray(picture).reshape(-1, 3))
        picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    _check_size(path, LARGEST_PNG)


def save_gif(frames: Sequence[Frame], path: Path, *, width: int) -> None:
    """Save screenshots, made smaller, as a film that begins again at its end.

    All frames share one palette, so that what does not change does not flicker. Vivid colours,
    which mark what matters in few pixels, have a part of it for themselves.
    """
    pictures = [_narrow(_open(frame.png), width) for frame in frames]
    palette = _palette(np.concatenate([np.asarray(each).reshape(-1, 3) for each in pictures]))
    indexed = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    indexed[0].save(
        path,
        save_all=True,
        append_images=indexed[1:],
        duration=[round(1000 * frame.seconds) for frame in frames],
        loop=0,
        optimize=False,
        disposal=1,
    )
    _check_size(path, LARGEST_GIF)


def _narrow(picture: Image.Image, width: int) -> Image.Image:
    height = round(picture.height * width / picture.width)
    return picture.resize((width, height), Image.Resampling.LANCZOS)


def _palette(pixels: NDArray[np.uint8]) -> Image.Image:
    is_vivid = np.ptp(pixels, axis=1) > VIVID
    parts = ((pixels[is_vivid], VIVID_COLOURS), (pixels[~is_vivid], COLOURS - 1 - VIVID_COLOURS))
    colours: list[int] = []
    for part, count in parts:
        # Each colour counts once, however many pixels have it, or rare ones would be lost.
        distinct = np.unique(part, axis=0)[None]
        if distinct.size:
            colours += Image.fromarray(distinct).quantize(count).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    return palette


def _open(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def _check_size(path: Path, most: int) -> None:
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:,.0f} kB")
    if size > most:
        raise SystemExit(f"midstep: {path} has {size:,} bytes, more than {most:,}")
