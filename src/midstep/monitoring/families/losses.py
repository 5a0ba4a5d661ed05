"""Losses over epochs: train and validation in one picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.monitoring.families.curve_names import is_loss
from midstep.monitoring.figure_payload import names_of, points
from midstep.monitoring.plot_style import draw_history, label_epochs, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig

_FIRST = ("train_loss", "val_loss")


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure with all losses."""
    del moment, cfg
    names = [name for name in names_of(payload) if is_loss(name)]
    if not names:
        return []
    names.sort(key=lambda name: (name not in _FIRST, name))
    figure, [axes] = new_figure("Losses", _best(payload))
    draw_history(axes, {name: points(payload, name) for name in names})
    label_epochs(axes)
    return [figure]


def _best(payload: Mapping[str, Any]) -> str:
    """The lowest validation loss, in words."""
    epochs, values = points(payload, "val_loss")
    pairs = zip(values, epochs, strict=True)
    finite = [(value, epoch) for value, epoch in pairs if math.isfinite(value)]
    if not finite:
        return ""
    value, epoch = min(finite)
    return f"lowest validation loss {readable(value)} in epoch {epoch}"
