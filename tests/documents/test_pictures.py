"""Pictures of the documents are small, exist in both themes, and are used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents.blocks import DOCS, PAGES, ROOT

IMAGES = sorted((DOCS / "images").iterdir())
ONE_THEME = "study-influence.png"
"""Its study needs a language model and 40 minutes, so it is not made again with the others."""
LARGEST = {".gif": 1_500_000, ".png": 200_000, ".svg": 20_000}
"""Bytes. A repository keeps every version of a picture for ever."""


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_a_picture_is_small(image: Path) -> None:
    assert image.stat().st_size <= LARGEST[image.suffix]


def test_every_picture_of_the_page_is_there_in_both_themes() -> None:
    names = {image.name for image in IMAGES if image.suffix != ".svg"} - {ONE_THEME}
    light = {name for name in names if "-light." in name}
    assert names == light | {name.replace("-light.", "-dark.") for name in light}


def test_every_picture_is_shown_and_every_shown_picture_exists() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"images/([\w-]+\.(?:png|gif|svg))", text))
    shown |= {name.replace("-light.", "-dark.") for name in shown}
    assert {image.name for image in IMAGES} <= shown
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for source in re.findall(r"(?:src|srcset)=\"([^\"]+)\"", readme):
        assert (ROOT / source).is_file()
