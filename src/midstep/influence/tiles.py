"""A tile: some rows or some columns of one parameter, laid out as a matrix.

Shapes: R rows of the tile, C columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Tile", "tiles_of"]

ALIGNED = 16
"""Matrix products of rows that are no multiple of it are slower, on CPUs by a tenth."""


@dataclass(frozen=True)
class Tile:
    """Places `start:stop` along `axis` of a matrix; of any other shape the flat values, C = 1."""

    name: str
    axis: int
    start: int
    stop: int
    across: int
    """Length of the other axis."""
    dtype: torch.dtype
    device: torch.device
    turned: bool = False
    """Whether columns of the parameter are laid out as rows, as GPUs contract them faster."""

    @property
    def cut(self) -> int:
        """How many places of the axis."""
        return self.stop - self.start

    @property
    def shape(self) -> tuple[int, int]:
        """(R, C)."""
        upright = self.axis == 0 or self.turned
        return (self.cut, self.across) if upright else (self.across, self.cut)

    def of(self, values: Tensor) -> Tensor:
        """[R, C] of a tensor of the parameter's shape, in the tile's type and place."""
        if values.dim() == 2:
            part = values.narrow(self.axis, self.start, self.cut)
            part = part.mT if self.turned else part
        else:
            part = values.reshape(-1, 1)[self.start : self.stop]
        return part.to(device=self.device, dtype=self.dtype)


def tiles_of(
    name: str,
    parameter: Tensor,
    *,
    values: int,
    most_rows: int,
    dtype: torch.dtype,
    by_rows: bool = False,
    turn: bool = False,
) -> Iterator[Tile]:
    """Tiles that cover a parameter once.

    Args:
        name: of the parameter.
        parameter: for shape and device.
        values: about how many values a tile may have.
        most_rows: at most this many rows.
        dtype: what tiles are computed in.
        by_rows: cut along the first axis even where the second is longer.
        turn: lay columns out as rows.
    """
    axis = 0
    if parameter.dim() == 2:
        axis = int(not by_rows and parameter.shape[1] > parameter.shape[0])
        length, across = parameter.shape[axis], parameter.shape[1 - axis]
    else:
        length, across = parameter.numel(), 1
    most = max(1, values // across)
    most -= most % ALIGNED if most >= ALIGNED else 0
    most = min(most, most_rows) if parameter.dim() == 2 else most
    for start in range(0, length, most):
        stop = min(length, start + most)
        yield Tile(
            name, axis, start, stop, across, dtype, parameter.device, turned=turn and axis == 1
        )
