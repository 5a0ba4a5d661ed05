"""The layer sweep: tiles of per-sequence gradients contracted as soon as they are made."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from midstep.influence.contraction import Contraction, KernelSums, SweepTask, mirrored
from midstep.influence.side_by_side import side_by_side
from midstep.influence.stopwatch import Stopwatch, unwatched
from midstep.influence.tiles import Tile, tiles_of

__all__ = ["KernelSweep"]

TILE_BYTES_CPU = 6 * 2**20
TILE_BYTES_GPU = 4 * 2**30
MOST_ROWS_GPU = 512
"""Gradient rows more than about 1.6 MB apart make the kernel's matrix product slower on an H200."""

FEWEST_VALUES = 2**20
"""Gradient values below which starting threads costs more than it spares."""


class KernelSweep:
    """Contracts parameters as they become ready; nothing of size batch × parameters is kept.

    On a CPU as many threads as torch is set to take tiles in turn, always the same ones, so that
    results are the same from run to run; between different numbers of threads they differ by
    rounding.

    Args:
        task: sides, weights, preconditioner and what is wanted.
        stopwatch: told which phase begins and ends; of several threads the first one's.
    """

    def __init__(self, task: SweepTask, *, stopwatch: Stopwatch = unwatched) -> None:
        self.task = task
        self._lanes = [Contraction(task, stopwatch)]

    def consume(self, names: Sequence[str]) -> None:
        """Contract these parameters and let their factors go."""
        tiles = [tile for name in names for tile in self._tiles(name)]
        lanes = self._lanes_for(tiles)
        if lanes == 1:
            for tile in tiles:
                self._lanes[0].add(tile)
        else:
            shares = [tiles[lane::lanes] for lane in range(lanes)]
            side_by_side(shares, lambda lane, tile: self._lanes[lane].add(tile))
        self.task.update.drop(names)
        if self.task.evaluation is not None:
            self.task.evaluation.drop(names)

    def _tiles(self, name: str) -> list[Tile]:
        task = self.task
        uses = [each for record in task.update.records for each in record.factors.get(name, [])]
        on_gpu = task.device.type == "cuda"
        room = TILE_BYTES_GPU if on_gpu else TILE_BYTES_CPU
        return list(
            tiles_of(
                name,
                task.parameters[name],
                values=max(1, room // (task.dtype.itemsize * task.count)),
                most_rows=MOST_ROWS_GPU if on_gpu else 1 << 30,
                dtype=task.dtype,
                by_rows=any(each.by_rows for each in uses),
                turn=on_gpu,
            )
        )

    def _lanes_for(self, tiles: Sequence[Tile]) -> int:
        values = sum(tile.cut * tile.across for tile in tiles) * self.task.count
        if self.task.device.type != "cpu" or values < FEWEST_VALUES:
            return 1
        wanted = max(1, min(torch.get_num_threads(), len(tiles)))
        while len(self._lanes) < wanted:
            self._lanes.append(Contraction(self.task))
        return wanted

    def finished(self) -> KernelSums:
        """The sums, once every parameter has been consumed."""
        first, *others = self._lanes
        for each in others:
            first.sums.add(each.sums)
        self._lanes = [first]
        return mirrored(self.task, first.sums)
