"""Time of each epoch, and throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.monitoring.figure_payload import points
from midstep.monitoring.plot_style import caption, draw_history, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig

_CAPTIONS = {"epoch_time_s": "seconds per epoch", "throughput": "samples per second"}


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure with what is known of the two."""
    del moment, cfg
    known = {name: history for name in _CAPTIONS if (history := points(payload, name))[0]}
    if not known:
        return []
    seconds = points(payload, "epoch_time_s")[1]
    fact = f"{readable(sum(seconds))} s in {len(seconds)} epochs" if seconds else ""
    figure, axes = new_figure("Speed", fact, columns=len(known), row_in=2.2)
    for each, (name, history) in zip(axes, known.items(), strict=True):
        draw_history(each, {name: history}, legend=False)
        each.set_yscale("linear")
        each.set_ylim(bottom=0)
        caption(each, _CAPTIONS[name])
    return [figure]
