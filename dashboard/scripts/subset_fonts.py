"""Cuts Inter and JetBrains Mono down to what the page writes.

Needed only when a glyph is missing; the results are committed in src/styles/fonts. In a throw-away
environment with fonttools and brotli, and the two npm packages `inter-ui` and
`@fontsource-variable/jetbrains-mono` unpacked:

    python subset_fonts.py InterVariable.woff2 jetbrains-mono-latin-wght-normal.woff2
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

FONTS = Path(__file__).parents[1] / "src" / "styles" / "fonts"
ASCII = set(range(0x20, 0x7F))
LATIN = ASCII | set(range(0xA0, 0x100))
GREEK = set(range(0x391, 0x3CA))
SIGNS = {
    ord(sign)
    for sign in "←↑→↓↔−×÷±≤≥≠≈∞√∑∂∆∇·•…–—‘’“”‹›◆◇●○■✓✕▾▴⌘°µ′″⁻¹²³⁰⁴⁵⁶⁷⁸⁹₀₁₂₃\u2009\u202f\u2007"
}


def cut(
    source: str,
    target: str,
    *,
    characters: set[int],
    features: list[str],
    axes: dict[str, float | tuple[float, float]],
) -> None:
    """Keep `characters` and `features`, narrow the axes, write woff2."""
    font = TTFont(source)
    options = subset.Options()
    options.layout_features = features
    options.hinting = False
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    # The instancer reads tables anew; a font fresh from the subsetter has some half unpacked.
    between = io.BytesIO()
    font.flavor = None
    font.save(between)
    between.seek(0)
    font = instancer.instantiateVariableFont(TTFont(between), axes)
    font.flavor = "woff2"
    font.save(FONTS / target)
    print(f"{target}: {(FONTS / target).stat().st_size:,} bytes")  # noqa: T201 - a script tells


if __name__ == "__main__":
    inter, mono = sys.argv[1:]
    cut(
        inter,
        "inter.woff2",
        characters=LATIN | GREEK | SIGNS,
        features=["kern", "tnum", "calt", "ccmp", "mark"],
        axes={"opsz": 14, "wght": (400, 600)},
    )
    cut(
        mono,
        "jetbrains-mono.woff2",
        characters=ASCII | {0xA0, 0xB7, 0x2013, 0x2026, 0x2212},
        features=["ccmp"],
        axes={"wght": (400, 600)},
    )
