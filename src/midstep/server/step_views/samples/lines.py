"""Curves of samples: sounds and series as the smallest and largest value of each interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.layout import SampleKind
from midstep.control.samples.part_names import kind_of_name
from midstep.server.array_json import as_array, numbers

LINE_NUMBERS = 16_384
"""Numbers of all shown curves together."""
LEAST_POINTS, MOST_POINTS = 16, 120
"""Intervals of a curve in a list, by how many curves there are. Of many samples only the first
channels are shown."""
WHOLE_POINTS = 1_000
"""Intervals of the curve of one sample."""
FIGURES = 5
"""Significant figures: a curve is a few hundred pixels high."""
DEFAULT_RATE = 16_000.0


def describe_lines(values: Any, *, points: int | None = None, length: int) -> dict[str, Any]:
    """The fields of `LinesOut`.

    Args:
        values: [N, C, T].
        points: intervals of each curve; by the number of curves if left out.
        length: values of a channel at full resolution.
    """
    array = as_array(values)
    if points is None:
        share = LINE_NUMBERS // max(1, 2 * len(array))
        array = array[:, : max(1, share // LEAST_POINTS)]
        points = max(LEAST_POINTS, min(MOST_POINTS, share // array.shape[1]))
    samples, channels, present = array.shape
    low, high = _envelope(array.astype(np.float64), min(points, present))
    return {
        "channels": channels,
        "points": low.shape[2],
        "length": length,
        "low": numbers(_rounded(low.reshape(samples, -1))),
        "high": numbers(_rounded(high.reshape(samples, -1))),
    }


def _envelope(array: Any, points: int) -> tuple[Any, Any]:
    """The smallest and the largest value of each interval; NaN where one is not finite."""
    starts = np.arange(points) * array.shape[2] // points
    return (
        np.minimum.reduceat(_spoilt(array), starts, axis=2),
        np.maximum.reduceat(_spoilt(array), starts, axis=2),
    )


def _spoilt(array: Any) -> Any:
    """Infinities as NaN, which spreads to its interval."""
    return np.where(np.isfinite(array), array, np.nan)


def _rounded(array: Any) -> Any:
    """Figures that can be seen; this halves the size of the answer."""
    with np.errstate(all="ignore"):
        size = np.floor(np.log10(np.abs(array)))
        factor = 10.0 ** (FIGURES - 1 - np.where(np.isfinite(size), size, 0))
        rounded = np.round(array * factor) / factor
    return np.where(np.isfinite(rounded), rounded, array)


def kind_of_lines(shown: ShownSamples) -> SampleKind:
    """`audio`, unless it was only guessed and the values are not around 0."""
    view, name = shown.view, shown.description.input_name
    is_named = (view is not None and view.kind is not None) or kind_of_name(name) == "audio"
    if shown.layout.kind != "audio" or is_named or shown.values is None:
        return shown.layout.kind
    array = as_array(shown.values)
    return "audio" if bool((array < 0).any()) and bool((array > 0).any()) else "series"


def sample_rate(shown: ShownSamples) -> float | None:
    """In hertz, of sounds."""
    if shown.layout.kind != "audio":
        return None
    rate = None if shown.view is None else shown.view.sample_rate
    return rate or _rate_of_batch(shown) or DEFAULT_RATE


def _rate_of_batch(shown: ShownSamples) -> float | None:
    """Of a column of the batch that is called so."""
    for name, column in zip(shown.description.columns, shown.slices.columns, strict=True):
        if name.rsplit(".", 1)[-1] in ("sample_rate", "sampling_rate", "sr") and len(column):
            rate = float(column[0])
            return rate if 0 < rate < 1e7 else None
    return None
