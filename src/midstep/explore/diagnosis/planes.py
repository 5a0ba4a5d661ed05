"""A sample or an output as a small picture of 8 bits in which values that are not finite stay seen.

Shapes: C channels, H rows, W columns.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from midstep.explore.diagnosis.finite_counts import as_real

MOST_SIDE = 64
"""Larger pictures are reduced; a cell is not finite if one of its values is not."""
LEVELS = 254
NOT_FINITE = 255
_COLOURS = (1, 3, 4)


def make_plane(tensor: Any, *, colours: bool = False) -> dict[str, Any] | None:
    """One channel of a sample as JSON; None for anything else, such as a vector.

    `levels` has a byte for each cell in base64: 0 is `low`, 254 is `high`, 255 is not finite.

    Args:
        tensor: of two or three dimensions.
        colours: whether up to four channels are colours, whose mean is shown.

    >>> plane = make_plane(torch.tensor([[0.0, 1.0], [float("nan"), 0.5]]))
    >>> list(base64.b64decode(plane["levels"])), plane["low"], plane["high"]
    ([0, 254, 255, 127], 0.0, 1.0)
    """
    values = as_real(tensor)
    if values is None or values.dim() not in (2, 3) or min(values.shape[-2:]) < 2:
        return None
    values = values.float().cpu()
    plane_HW, channel, channels = _one_channel(values, colours=colours)
    plane_HW = _reduced(plane_HW)
    finite = plane_HW.isfinite()
    known = plane_HW[finite]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    is_signed = low < 0
    if is_signed:  # symmetric, so that zero is in the middle of the colours
        high = max(-low, high)
        low = -high
    scaled = (plane_HW - low) / ((high - low) or 1.0) * LEVELS
    levels = torch.where(finite, scaled.nan_to_num().round().clamp(0, LEVELS), NOT_FINITE)
    height, width = plane_HW.shape
    return {
        "width": width,
        "height": height,
        "low": low,
        "high": high,
        "signed": is_signed,
        "channel": channel,
        "channels": channels,
        "levels": base64.b64encode(bytes(levels.byte().flatten().tolist())).decode("ascii"),
    }


def _one_channel(values: Tensor, *, colours: bool) -> tuple[Tensor, int | None, int]:
    """The plane to show: the mean of colours, else the channel with most values that are broken."""
    if values.dim() == 2:
        return values, None, 1
    if colours and values.shape[0] not in _COLOURS and values.shape[2] in _COLOURS:
        values = values.movedim(2, 0)  # [H, W, C]
    channels = len(values)
    if colours and channels in _COLOURS:
        return values[: min(3, channels)].mean(dim=0), None, channels
    broken_C = (~values.isfinite()).flatten(1).sum(dim=1)
    spread_C = values.nan_to_num(0.0, 0.0, 0.0).flatten(1).std(dim=1)
    # Of equally broken channels the one that shows most.
    order = sorted(range(channels), key=lambda at: (-int(broken_C[at]), -float(spread_C[at])))
    return values[order[0]], order[0], channels


def _reduced(plane_HW: Tensor) -> Tensor:
    """At most 64 cells a side: the first value of each block, or NaN if one is not finite."""
    step = -(-max(plane_HW.shape) // MOST_SIDE)
    if step == 1:
        return plane_HW
    broken = (~plane_HW.isfinite()).float()[None, None]
    blocks = torch.nn.functional.max_pool2d(broken, step, ceil_mode=True)[0, 0]
    reduced = plane_HW[::step, ::step].clone()
    reduced[blocks[: reduced.shape[0], : reduced.shape[1]] > 0] = float("nan")
    return reduced
