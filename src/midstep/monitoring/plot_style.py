"""How all figures look: the light tokens of the page, on matplotlib's object-oriented API.

Nothing global is changed or used: no pyplot, no rcParams. A notebook that draws figures of its own
in another thread is not disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from midstep.monitoring.figure_payload import Points

SERIES = ("#2A8CE8", "#DD6B1A", "#00735B", "#A3348F", "#6A5000", "#22319F")
FURTHER = "#C6CCD5"
"""From the seventh series on."""
TEXT, SECONDARY, LABEL, GRID, NOT_FINITE = "#15181E", "#474E5B", "#626A77", "#ECEEF1", "#E800C4"
_WIDTH_IN, _ROW_IN = 6.4, 3.0
_HEAD_IN, _FOOT_IN = 0.62, 0.45
_LOG_FROM = 50
"""Values that span more than this factor are drawn on a logarithmic axis."""


def new_figure(
    title: str, fact: str = "", *, rows: int = 1, columns: int = 1, row_in: float = _ROW_IN
) -> tuple[Figure, list[Axes]]:
    """A figure with its head line, and its axes row by row."""
    height = _HEAD_IN + rows * row_in
    figure = Figure(figsize=(_WIDTH_IN, height), facecolor="#FFFFFF")
    FigureCanvasAgg(figure)
    top = 1 - _HEAD_IN / height
    # Fixed margins: matplotlib's own layouts draw each figure twice.
    figure.subplots_adjust(
        left=0.11 if columns == 1 else 0.09,
        right=0.97,
        top=top,
        bottom=_FOOT_IN / height,
        wspace=0.28,
        hspace=0.42,
    )
    figure.text(0.02, 1 - 0.24 / height, title, fontsize=11, fontweight="bold", color=TEXT)
    figure.text(0.98, 1 - 0.24 / height, fact, fontsize=9, color=LABEL, ha="right")
    axes = figure.subplots(rows, columns, squeeze=False)
    all_axes = list(axes.flat)
    for each in all_axes:
        style_axes(each)
    return figure, all_axes


def style_axes(axes: Axes) -> None:
    """Horizontal grid lines, grey labels, no frame."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FURTHER)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(colors=LABEL, labelsize=8, length=0)


def hide(axes: Sequence[Axes]) -> None:
    """Leave these axes empty."""
    for each in axes:
        each.set_visible(False)


def draw_history(axes: Axes, histories: Mapping[str, Points], *, legend: bool = True) -> None:
    """Lines over epochs. A value that is not finite is a gap, with a mark on the axis."""
    for index, (name, (epochs, values)) in enumerate(histories.items()):
        colour = SERIES[index] if index < len(SERIES) else FURTHER
        shown = [value if math.isfinite(value) else math.nan for value in values]
        marker = "o" if len(epochs) == 1 else None  # a line of one point is invisible
        axes.plot(
            epochs, shown, color=colour, linewidth=1.6, label=name, marker=marker, markersize=4
        )
        gaps = [
            epoch for epoch, value in zip(epochs, values, strict=True) if not math.isfinite(value)
        ]
        if gaps:
            axes.plot(
                gaps,
                [0.02] * len(gaps),
                transform=axes.get_xaxis_transform(),
                linestyle="none",
                marker="x",
                markersize=6,
                color=NOT_FINITE,
                label=f"{name}: NaN",
            )
    _scale(axes, [value for _, values in histories.values() for value in values])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if legend:
        axes.legend(frameon=False, fontsize=8, labelcolor=SECONDARY, loc="best")


def _scale(axes: Axes, values: list[float]) -> None:
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) > 0 and max(finite) / min(finite) > _LOG_FROM:
        axes.set_yscale("log")


def label_epochs(axes: Axes) -> None:
    """Name the axis of epochs."""
    axes.set_xlabel("epoch", fontsize=8, color=LABEL)


def caption(axes: Axes, text: str) -> None:
    """A small title above one of several axes."""
    axes.set_title(text, fontsize=8, color=SECONDARY, loc="left", pad=4)


def draw_image(axes: Axes, image: Any, *, low: float, high: float) -> None:
    """A picture without interpolation, on a common scale."""
    axes.imshow(image, cmap="viridis", vmin=low, vmax=high, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


def readable(value: float) -> str:
    """A number for a head line: four significant digits.

    >>> readable(0.123456), readable(float("nan"))
    ('0.1235', 'NaN')
    """
    return "NaN" if math.isnan(value) else f"{value:.4g}"
