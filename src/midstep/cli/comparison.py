"""Runs of the demo beside each other: what became of their features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from midstep.cli.wording import aligned

if TYPE_CHECKING:
    from midstep.loops.bcl import BclResult

__all__ = ["comparison"]

COLUMNS = {
    "l1": ("L1", "{:.4f}"),
    "psnr": ("PSNR", "{:.2f}"),
    "weight_cosine": ("cosine", "{:.3f}"),
    "effective_rank": ("rank", "{:.1f}"),
    "dead": ("dead", "{:g}"),
    "winners": ("winners", "{:g}"),
    "unreachable": ("unreachable", "{:g}"),
    "gini": ("Gini", "{:.3f}"),
}
"""Metric: its heading, and how a value is written."""


def comparison(results: Sequence[BclResult]) -> list[str]:
    """A line per run, and per condition the mean over its seeds where there are several."""
    rows = [["condition", "seed", "steps", *(heading for heading, _ in COLUMNS.values())]]
    for condition in dict.fromkeys(each.condition for each in results):
        found = [each for each in results if each.condition == condition]
        rows += [[condition, str(each.seed), f"{each.steps:,}", *_cells([each])] for each in found]
        if len(found) > 1:
            rows.append([condition, "mean", "", *_cells(found)])
    return aligned(rows, right=range(1, len(rows[0])))


def _cells(results: Sequence[BclResult]) -> list[str]:
    return [
        form.format(math.fsum(each.health.metrics[name] for each in results) / len(results))
        for name, (_, form) in COLUMNS.items()
    ]
