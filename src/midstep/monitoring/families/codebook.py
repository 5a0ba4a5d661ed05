"""The codebook of a vector quantizer: how often each code is used, and its perplexity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.monitoring.codebook_truth import as_counts, codebook_statistics
from midstep.monitoring.figure_payload import points
from midstep.monitoring.plot_style import (
    LABEL,
    SERIES,
    caption,
    draw_history,
    label_epochs,
    new_figure,
    readable,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from midstep.monitoring.logging_config import LoggingConfig


def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
    """One figure: codes by use, and the perplexity of each epoch."""
    del moment, cfg
    codebook = payload.get("codebook")
    if not codebook:
        return []
    counts = as_counts(codebook["counts"])
    statistics = codebook_statistics(counts)
    history = points(payload, "codebook_perplexity")
    figure, axes = new_figure("Codebook", _fact(statistics, codebook), columns=1 + bool(history[0]))
    for index, each in enumerate(counts[: len(SERIES)]):
        # Of millions of codes a picture shows no more than it has columns of pixels.
        ordered = np.sort(each)[::-1]
        ranks = np.unique(np.linspace(0, len(ordered) - 1, 1_000).astype(int))
        axes[0].fill_between(
            ranks, ordered[ranks], step="post", color=SERIES[index], alpha=0.85, linewidth=0
        )
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlabel("codes, most used first", fontsize=8, color=LABEL)
    caption(axes[0], "uses in the epoch")
    if history[0]:
        draw_history(axes[1], {"perplexity": history}, legend=False)
        caption(axes[1], f"perplexity of {counts.shape[1]} codes")
        label_epochs(axes[1])
    return [figure]


def _fact(statistics: Mapping[str, float], codebook: Mapping[str, Any]) -> str:
    words = [
        f"perplexity {readable(statistics['perplexity'])}",
        f"{100 * statistics['usage']:.0f} % used",
    ]
    oldest = codebook.get("oldest_dead_epochs")
    if oldest:
        words.append(f"longest unused {oldest} epochs")
    return ", ".join(words)
