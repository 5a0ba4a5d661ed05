"""Screenshots as small files: PNG with few colours, and GIF of several screenshots.

Pillow comes with the tools for developers (matplotlib needs it); midstep itself does without.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

COLOURS = 256
LARGEST_PNG = 200_000
LARGEST_GIF = 1_500_000
"""Bytes; a repository keeps every version of a picture for ever."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A screenshot and how long it is shown."""

    png: bytes
    seconds: float


def save_png(png: bytes, path: Path) -> None:
    """Save a screenshot with at most 256 colours, chosen for this picture."""
    picture = _open(png).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    _check_size(path, LARGEST_PNG)


def save_gif(frames: Sequence[Frame], path: Path) -> None:
    """Save screenshots as a film that begins again at its end.

    All frames share one palette, so that what does not change does not flicker.
    """
    pictures = [_open(frame.png) for frame in frames]
    sample = Image.new("RGB", (pictures[0].width, pictures[0].height * len(pictures)))
    for index, picture in enumerate(pictures):
        sample.paste(picture, (0, index * picture.height))
    palette = sample.quantize(COLOURS - 1, dither=Image.Dither.NONE)
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


def _open(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def _check_size(path: Path, most: int) -> None:
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:,.0f} kB")
    if size > most:
        raise SystemExit(f"midstep: {path} has {size:,} bytes, more than {most:,}")
