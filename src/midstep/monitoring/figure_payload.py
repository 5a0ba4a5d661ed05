"""`FigurePayload`: what a plot family draws from, in the shape in which the facts have it.

Every field but the histories is a field of an epoch record. So a figure that is drawn while a run
trains and one that is drawn afterwards have the same input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

History = Mapping[int, float] | Sequence[float]
"""Values by epoch; or a list, which begins with epoch 0."""


class FigurePayload(TypedDict, total=False):
    """What happened up to an epoch. Families skip what they need and do not find."""

    run_dir: str
    """The run directory; figures are saved in its folder `figures`."""
    epoch: int
    """The epoch of the moment."""
    histories: Mapping[str, History]
    """Losses, metrics, times and throughput by name."""
    codebook: Mapping[str, Any]
    """`counts` [codebooks, codes] over the epoch, and statistics of them."""
    reconstructions: Mapping[str, Any]
    """`kind`, `samples` and `reconstructions`: arrays by the names of a batch."""
    noise_levels: Sequence[Mapping[str, Any]]
    """Error of a denoiser by share of signal in its input."""


EPOCH_FIELDS = ("codebook", "reconstructions", "noise_levels")
"""Fields of epoch records that are passed on as they are."""
Points = tuple[list[int], list[float]]
"""Epochs, and the value in each."""


def points(payload: Mapping[str, Any], name: str) -> Points:
    """The history of a name; two empty lists if it has none.

    >>> points({"histories": {"loss": [0.5, 0.25]}}, "loss")
    ([0, 1], [0.5, 0.25])
    """
    history = payload.get("histories", {}).get(name, {})
    pairs = history.items() if isinstance(history, Mapping) else enumerate(history)
    known = sorted((int(epoch), _number(value)) for epoch, value in pairs if value is not None)
    return [epoch for epoch, _ in known], [value for _, value in known]


def names_of(payload: Mapping[str, Any]) -> list[str]:
    """Names of the histories that have a value, in the order they appeared."""
    return [name for name in payload.get("histories", {}) if points(payload, name)[0]]


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
