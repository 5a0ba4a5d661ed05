"""Who moved a sequence most: signed contributions, largest first, ties in the order of names.

Shapes: E evaluated sequences, U sequences of the update.
"""

# ruff: noqa: N803 - names end in their shape
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Contributor", "top_contributors"]


@dataclass(frozen=True, kw_only=True)
class Contributor:
    """One sequence of the update, seen from one that it moved."""

    sequence_id: str
    """Its name in the update."""
    contribution: float
    """What it adds to Δ log π, in nats, with its sign."""
    kernel: float
    """K between the two."""
    cosine: float
    """K over the two norms; NaN when a norm is zero or not known."""


def top_contributors(
    contributions_EU: Tensor,
    kernel_EU: Tensor,
    cosine_EU: Tensor,
    sequence_ids: Sequence[str],
    top_k: int,
) -> list[list[Contributor]]:
    """The `top_k` largest contributions in size to each row, zeros left out.

    >>> import torch
    >>> values = torch.tensor([[0.5, -2.0, 0.5, 0.0]])
    >>> rows = top_contributors(values, values, values, ["U-3", "U-2", "U-1", "U-0"], 3)
    >>> [one.sequence_id for one in rows[0]]
    ['U-2', 'U-1', 'U-3']
    """
    rows = zip(contributions_EU.tolist(), kernel_EU.tolist(), cosine_EU.tolist(), strict=True)
    return [
        [
            Contributor(
                sequence_id=sequence_ids[at],
                contribution=moved[at],
                kernel=kernel[at],
                cosine=cosine[at],
            )
            for at in _order(moved, sequence_ids)[:top_k]
        ]
        for moved, kernel, cosine in rows
    ]


def _order(moved: Sequence[float], sequence_ids: Sequence[str]) -> list[int]:
    places = [at for at, value in enumerate(moved) if value != 0]
    return sorted(places, key=lambda at: (-abs(moved[at]), sequence_ids[at]))
