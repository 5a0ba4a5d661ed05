"""The two players of an adversarial training: their losses and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.monitoring.families.curve_names import is_of_players
from midstep.monitoring.figure_payload import names_of, points
from midstep.monitoring.plot_style import caption, draw_history, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure: losses, and scores of real and reconstructed samples next to them."""
    del moment, cfg
    names = [name for name in names_of(payload) if is_of_players(name)]
    scores = [name for name in names if "score" in name or "accuracy" in name]
    groups = {
        "losses": [name for name in names if name not in scores],
        "scores of the discriminator": scores,
    }
    shown = {words: group for words, group in groups.items() if group}
    if not shown:
        return []
    figure, axes = new_figure("Adversarial training", columns=len(shown))
    for each, (words, group) in zip(axes, shown.items(), strict=True):
        draw_history(each, {name: points(payload, name) for name in group})
        caption(each, words)
    return [figure]
