"""Pictures of the documents keep the colours of the page."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tools.picture_files import LARGEST_PNG, save_png

AMBER, RED = (240, 160, 20), (230, 70, 70)
"""Two badges, each of few pixels."""


def grey(size: int, shades: int) -> NDArray[np.uint8]:
    """A picture of greys that are not quite grey, with two badges."""
    random = np.random.default_rng(0)
    values = random.integers(100, 100 + shades, (size, size, 1)) + random.integers(0, 9, (1, 1, 3))
    pixels = (values + random.integers(0, shades // 2, (size, size, 3))).astype(np.uint8)
    pixels[:4, :8], pixels[8:12, :8] = AMBER, RED
    return pixels


def saved(pixels: NDArray[np.uint8], path: Path) -> Image.Image:
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    save_png(png.getvalue(), path)
    return Image.open(path)


def test_a_small_picture_keeps_every_colour(tmp_path: Path) -> None:
    pixels = grey(100, 60)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 256
    picture = saved(pixels, tmp_path / "small.png")
    assert picture.mode == "RGB"
    assert np.array_equal(np.asarray(picture), pixels)


def test_a_large_picture_gets_a_palette_that_keeps_vivid_colours(tmp_path: Path) -> None:
    picture = saved(grey(370, 60), tmp_path / "large.png")
    assert picture.mode == "P"
    assert (tmp_path / "large.png").stat().st_size <= LARGEST_PNG
    pixels = np.asarray(picture.convert("RGB"))
    assert np.abs(pixels[2, 4].astype(int) - AMBER).max() <= 4
    assert np.abs(pixels[10, 4].astype(int) - RED).max() <= 4


def test_a_picture_that_stays_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="more than 200,000"):
        saved(grey(800, 60), tmp_path / "huge.png")
