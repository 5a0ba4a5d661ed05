"""A tile: some rows of one parameter, laid out [rows, columns] whatever the parameter's shape.

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


@dataclass(frozen=True)
class Tile:
    """Rows `start:stop` along `axis` of a matrix; of any other shape the flat values, C = 1."""

    name: str
    axis: int
    start: int
    stop: int
    columns: int
    dtype: torch.dtype
    device: torch.device

    @property
    def rows(self) -> int:
        """R."""
        return self.stop - self.start

    @property
    def shape(self) -> tuple[int, int]:
        """(R, C)."""
        return self.rows, self.columns

    def of(self, values: Tensor) -> Tensor:
        """[R, C] of a tensor of the parameter's shape, in the tile's type and place."""
        if values.dim() == 2:
            part = values.narrow(self.axis, self.start, self.rows)
            part = part.mT if self.axis else part
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
) -> Iterator[Tile]:
    """Tiles that cover a parameter once.

    Args:
        name: of the parameter.
        parameter: for shape and device.
        values: about how many values a tile may have.
        most_rows: at most this many rows.
        dtype: what tiles are computed in.
        by_rows: cut along the first axis even where the second is longer.
    """
    axis = 0
    if parameter.dim() == 2:
        axis = int(not by_rows and parameter.shape[1] > parameter.shape[0])
        length, columns = parameter.shape[axis], parameter.shape[1 - axis]
    else:
        length, columns = parameter.numel(), 1
    rows = max(1, values // columns)
    rows = min(rows, most_rows) if parameter.dim() == 2 else rows
    for start in range(0, length, rows):
        stop = min(length, start + rows)
        yield Tile(name, axis, start, stop, columns, dtype, parameter.device)
