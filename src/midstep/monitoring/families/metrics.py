"""Metrics over epochs, each on axes of its own, since their units differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.monitoring.families.curve_names import is_metric
from midstep.monitoring.figure_payload import names_of, points
from midstep.monitoring.plot_style import caption, draw_history, hide, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig

MOST = 6


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure with the first six metrics, and how many there are."""
    del moment, cfg
    names = sorted(name for name in names_of(payload) if is_metric(name))
    if not names:
        return []
    shown = names[:MOST]
    fact = f"{len(shown)} of {len(names)}" if len(names) > len(shown) else ""
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    figure, axes = new_figure("Metrics", fact, rows=rows, columns=columns, row_in=2.0)
    for each, name in zip(axes, shown, strict=False):
        history = points(payload, name)
        draw_history(each, {name: history}, legend=False)
        caption(each, f"{name}  {readable(history[1][-1])}")
    hide(axes[len(shown) :])
    return [figure]
