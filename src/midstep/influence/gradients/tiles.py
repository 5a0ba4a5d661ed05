"""A tile: a range of rows or columns of one parameter, as a matrix.

Shapes: R rows of the tile, C columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ALIGNMENT = 16
"""Rows of a tile are a multiple of this: other matrix products are a tenth slower on CPUs."""


@dataclass(frozen=True)
class Tile:
    """Indices `start:stop` along `axis` of a matrix. Other shapes are one flat column, C = 1."""

    name: str
    axis: int
    start: int
    stop: int
    other_length: int
    """Length of the other axis."""
    dtype: torch.dtype
    device: torch.device
    transposed: bool = False
    """Whether columns of the parameter become rows, because GPUs contract them faster."""

    @classmethod
    def whole(cls, name: str, values: Tensor, dtype: torch.dtype) -> Tile:
        """The tile that covers all of a parameter; `values` gives its shape and device."""
        columns = values.shape[1] if values.dim() == 2 else 1
        return cls(name, 0, 0, values.numel() // columns, columns, dtype, values.device)

    @property
    def length(self) -> int:
        """Number of indices along the axis."""
        return self.stop - self.start

    @property
    def shape(self) -> tuple[int, int]:
        """(R, C)."""
        upright = self.axis == 0 or self.transposed
        return (self.length, self.other_length) if upright else (self.other_length, self.length)

    def take(self, values: Tensor) -> Tensor:
        """[R, C] values of a tensor of the parameter's shape, in the tile's type, on its device."""
        if values.dim() == 2:
            part = values.narrow(self.axis, self.start, self.length)
            part = part.mT if self.transposed else part
        else:
            part = values.reshape(-1, 1)[self.start : self.stop]
        return part.to(device=self.device, dtype=self.dtype)


def split_into_tiles(
    name: str,
    parameter: Tensor,
    *,
    max_values: int,
    max_rows: int,
    dtype: torch.dtype,
    by_rows: bool = False,
    transpose: bool = False,
) -> Iterator[Tile]:
    """Tiles that together cover a parameter exactly once.

    Args:
        name: the parameter's name.
        parameter: gives shape and device.
        max_values: about the most values of a tile.
        max_rows: the most rows of a tile of a matrix.
        dtype: type of the computation.
        by_rows: split the first axis even where the second is longer.
        transpose: let columns become rows.
    """
    axis = 0
    if parameter.dim() == 2:
        # Along the longer axis: tiles are then closer to square.
        axis = int(not by_rows and parameter.shape[1] > parameter.shape[0])
        length, other_length = parameter.shape[axis], parameter.shape[1 - axis]
    else:
        length, other_length = parameter.numel(), 1
    # At least one row, even where one row alone exceeds `max_values`.
    step = max(1, max_values // other_length)
    step -= step % ALIGNMENT if step >= ALIGNMENT else 0
    step = min(step, max_rows) if parameter.dim() == 2 else step
    for start in range(0, length, step):
        stop = min(length, start + step)
        yield Tile(
            name,
            axis,
            start,
            stop,
            other_length,
            dtype,
            parameter.device,
            transposed=transpose and axis == 1,
        )
