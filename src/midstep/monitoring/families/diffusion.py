"""A denoiser: its error by noise level, and its terms over epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.monitoring.families.curve_names import is_of_denoiser
from midstep.monitoring.figure_payload import names_of, points
from midstep.monitoring.plot_style import LABEL, SERIES, caption, draw_history, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure with what is known of the two."""
    del moment, cfg
    levels = [each for each in payload.get("noise_levels", ()) if each.get("loss") is not None]
    terms = [name for name in names_of(payload) if is_of_denoiser(name)]
    if not (levels or terms):
        return []
    samples = sum(int(each.get("samples", 0)) for each in levels)
    fact = f"{samples} samples" if levels else ""
    figure, axes = new_figure("Diffusion", fact, columns=bool(levels) + bool(terms))
    if levels:
        _draw_levels(axes[0], levels)
    if terms:
        draw_history(axes[-1], {name: points(payload, name) for name in terms})
        caption(axes[-1], "terms over epochs")
    return [figure]


def _draw_levels(axes: Axes, levels: list[Mapping[str, Any]]) -> None:
    starts = [float(each["signal_from"]) for each in levels]
    widths = [float(each["signal_to"]) - float(each["signal_from"]) for each in levels]
    losses = [float(each["loss"]) for each in levels]
    axes.bar(starts, losses, width=[0.9 * each for each in widths], align="edge", color=SERIES[0])
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of signal in the input", fontsize=8, color=LABEL)
    caption(axes, "reconstruction error")
