"""Samples and their reconstructions: pictures, vectors, or the real tokens of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from midstep.monitoring.plot_style import (
    FURTHER,
    LABEL,
    SERIES,
    caption,
    draw_image,
    hide,
    new_figure,
    readable,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig

    Floats = npt.NDArray[np.float64]

MOST_SAMPLES = 8
MOST_AXES = 6
_GAP = 1
"""Pixels between two images."""


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure for each kind of value that samples and reconstructions share."""
    del moment, cfg
    recorded = payload.get("reconstructions")
    if not recorded:
        return []
    samples, rebuilt = (
        {name: _array(value) for name, value in recorded[key].items()}
        for key in ("samples", "reconstructions")
    )
    kind = recorded.get("kind")
    if kind == "events":
        return [_events(samples, rebuilt)]
    [name] = [name for name in rebuilt if name in samples][:1]
    draw = _images if samples[name].ndim > 2 else _vectors
    return [draw(samples[name][:MOST_SAMPLES], rebuilt[name][:MOST_SAMPLES])]


def _array(value: Any) -> Floats:
    """An array of the facts: nested lists, or shape and values."""
    if isinstance(value, Mapping):
        return np.asarray(value["values"], np.float64).reshape(value["shape"])
    return np.asarray(value, np.float64)


def _images(samples: Floats, rebuilt: Floats) -> Figure:
    """Samples above their reconstructions on one scale, and the difference below."""
    error = np.abs(rebuilt - samples)
    fact = f"mean squared error {readable(float((error**2).mean()))}"
    figure, axes = new_figure("Reconstruction", fact, rows=2, row_in=2.0)
    low, high = (float(edge(samples)) for edge in (np.nanmin, np.nanmax))
    pair = np.concatenate([_strip(samples), _strip(rebuilt)], axis=0)
    draw_image(axes[0], pair, low=low, high=high)
    caption(axes[0], f"samples above, reconstructions below, {readable(low)} to {readable(high)}")
    worst = float(np.nanmax(error))
    draw_image(axes[1], _strip(error), low=0.0, high=worst or 1.0)
    caption(axes[1], f"absolute difference, 0 to {readable(worst)}")
    return figure


def _strip(images: Floats) -> Floats:
    """Images [samples, (channels,) height, width] side by side; channels are averaged."""
    grey = images.mean(1) if images.ndim == 4 else images
    padded = np.pad(grey, ((0, 0), (0, _GAP), (0, _GAP)), constant_values=np.nan)
    return np.concatenate(list(padded), axis=1)


def _vectors(samples: Floats, rebuilt: Floats) -> Figure:
    """Each sample and its reconstruction as two lines."""
    shown = min(len(samples), MOST_AXES)
    columns = min(shown, 2)
    figure, axes = new_figure(
        "Reconstruction",
        f"mean squared error {readable(float(((rebuilt - samples) ** 2).mean()))}",
        rows=-(-shown // columns),
        columns=columns,
        row_in=1.8,
    )
    for each, sample, copy in zip(axes, samples, rebuilt, strict=False):
        each.plot(sample, color=FURTHER, linewidth=2.4, label="sample")
        each.plot(copy, color=SERIES[0], linewidth=1.2, label="reconstruction")
    axes[0].legend(frameon=False, fontsize=8)
    hide(axes[shown:])
    return figure


def _events(samples: Mapping[str, Floats], rebuilt: Mapping[str, Floats]) -> Figure:
    """Values of real tokens against their reconstructions, one panel for each feature."""
    is_real = samples["tokens_id"] > 0
    panels: dict[str, tuple[Floats, Floats]] = {}
    for name in rebuilt:
        if name not in samples or name == "tokens_id":
            continue
        before, after = samples[name], rebuilt[name]
        if name == "tokens_cont":  # padding is not a reconstruction
            before, after = before[is_real], after[is_real]
        for feature in range(before.shape[-1]):
            panels[f"{name} {feature}"] = (before[..., feature], after[..., feature])
    shown = dict(list(panels.items())[:MOST_AXES])
    fact, rows = _fact(samples, rebuilt, is_real), -(-len(shown) // 3)
    figure, axes = new_figure("Reconstruction", fact, rows=rows, columns=3, row_in=2.3)
    for each, (words, (before, after)) in zip(axes, shown.items(), strict=False):
        ends = [float(np.nanmin(before)), float(np.nanmax(before))]
        each.plot(ends, ends, color=FURTHER, linewidth=1)
        each.plot(
            before, after, linestyle="none", marker="o", markersize=2.5, color=SERIES[0], alpha=0.6
        )
        caption(each, words)
        each.set_xlabel("sample", fontsize=8, color=LABEL)
    hide(axes[len(shown) :])
    return figure


def _fact(
    samples: Mapping[str, Floats], rebuilt: Mapping[str, Floats], is_real: npt.NDArray[np.bool_]
) -> str:
    words = [f"{int(is_real.sum())} real tokens of {len(is_real)} events"]
    if "tokens_id" in rebuilt and is_real.any():
        right = (samples["tokens_id"] == rebuilt["tokens_id"])[is_real].mean()
        words.append(f"{100 * right:.0f} % of the types right")
    return ", ".join(words)
