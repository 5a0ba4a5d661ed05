"""Charts of the report as HTML text: SVG figures, and a heatmap as an inline PNG.

Own code instead of matplotlib: a report works in an install without extras.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from midstep.core.png import encode_png

Rows = Sequence[Sequence[float]]
_WIDTH, _HEIGHT, _MARGIN = 420, 240, 44


def heatmap(rows: Rows, *, title: str) -> str:
    """Signed values as an image: red above zero, blue below, white at zero.

    The colour scale ends at the 98th percentile, so that a few large values do not make all others
    white.
    """
    sizes = sorted(abs(value) for row in rows for value in row if math.isfinite(value))
    limit = sizes[int(0.98 * (len(sizes) - 1))] if sizes else 0.0
    pixels = [[_colour(value, limit or 1.0) for value in row] for row in rows]
    # Reports are stored and sent by mail, so size matters more than time here.
    image = encode_png(np.array(pixels, np.uint8), level=9, strategy=zlib.Z_DEFAULT_STRATEGY)
    source = base64.b64encode(image).decode()
    height = min(480, max(80, 6 * len(rows)))
    return (
        f'<figure><img class="heat" alt="{escape(title)}" style="height:{height}px" '
        f'src="data:image/png;base64,{source}"><figcaption>{escape(title)} '
        f"(colour ends at ±{limit:.3g})</figcaption></figure>"
    )


def _colour(value: float, limit: float) -> tuple[int, int, int]:
    if not math.isfinite(value):
        return (128, 128, 128)
    share = max(-1.0, min(1.0, value / limit))
    faded = round(255 * (1 - abs(share)))
    return (255, faded, faded) if share >= 0 else (faded, faded, 255)


def histogram(values: Sequence[float], *, title: str, bins: int = 24) -> str:
    """A histogram of the finite values; empty text when there are none."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    counts = [0] * bins
    for value in finite:
        counts[min(bins - 1, int((value - low) / span * bins))] += 1
    width, most = (_WIDTH - 2 * _MARGIN) / bins, max(counts)
    bars = "".join(
        f'<rect x="{_MARGIN + at * width:.1f}" y="{_y_pixel(count / most):.1f}" '
        f'width="{max(1.0, width - 1):.1f}" height="{_y_pixel(0) - _y_pixel(count / most):.1f}"/>'
        for at, count in enumerate(counts)
        if count
    )
    return _figure(bars + _range_labels(low, high) + _label(4, 20, str(most)), title)


def scatter(
    across: Sequence[float], up: Sequence[float], *, title: str, names: Sequence[str]
) -> str:
    """Points with the line on which both are equal."""
    pairs = [
        (x, y, name)
        for x, y, name in zip(across, up, names, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]
    if not pairs:
        return ""
    both = [value for x, y, _ in pairs for value in (x, y)]
    low, span = min(both), (max(both) - min(both)) or 1.0
    dots = "".join(
        f'<circle cx="{_x_pixel((x - low) / span):.1f}" '
        f'cy="{_y_pixel((y - low) / span):.1f}" r="3">'
        f"<title>{escape(name)}: {x:.4g} / {y:.4g}</title></circle>"
        for x, y, name in pairs
    )
    line = f'<line x1="{_x_pixel(0)}" y1="{_y_pixel(0)}" x2="{_x_pixel(1)}" y2="{_y_pixel(1)}"/>'
    return _figure(line + dots + _range_labels(low, low + span), title)


def _x_pixel(share: float) -> float:
    return _MARGIN + share * (_WIDTH - 2 * _MARGIN)


def _y_pixel(share: float) -> float:
    return _HEIGHT - _MARGIN + 12 - share * (_HEIGHT - 2 * _MARGIN)


def _range_labels(low: float, high: float) -> str:
    """The smallest and the largest value below the horizontal axis."""
    bottom = _HEIGHT - 12
    left = _label(_MARGIN, bottom, f"{low:.3g}")
    return left + _label(_WIDTH - _MARGIN, bottom, f"{high:.3g}", anchor="end")


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(inside: str, title: str) -> str:
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{inside}</svg><figcaption>{escape(title)}</figcaption></figure>"
    )
