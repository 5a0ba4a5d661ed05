"""The layer sweep: tiles of per-sequence gradients contracted as soon as they are made.

Shapes: U and E sequences of the two sides, N of either, R rows and C columns of a tile, P = R·C.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from midstep.influence.factors import product, sum_type
from midstep.influence.fused import fused
from midstep.influence.scaling import adam_scaled, can_scale
from midstep.influence.stopwatch import Stopwatch, unwatched
from midstep.influence.tiles import Tile, tiles_of

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.passes import Side
    from midstep.influence.preconditioners import Preconditioner

__all__ = ["KernelSums", "KernelSweep"]

TILE_BYTES_CPU = 6 * 2**20
TILE_BYTES_GPU = 4 * 2**30
MOST_ROWS_GPU = 512
"""Gradient rows more than about 1.6 MB apart make the kernel's matrix product slower on an H200."""

TRIANGLE_FROM = 512
"""From this many sequences of U on, what the symmetry of K(U,U) spares outweighs the split."""


@dataclass
class KernelSums:
    """What the sweep adds up, in the order of the micro-batches: U first, then E (N of both)."""

    kernel: Tensor
    """[N, U], or [E, U] without K(U,U)."""
    drift: Tensor | None
    """The same rows: inner products with the directions of momentum and decay, [·, 2]."""
    squares: Tensor | None
    """[N, 2] g·D·g and g·g; the gradients may be used up."""
    gradient_square: Tensor
    """|G|², before clipping."""
    traces: dict[str, Tensor]
    """Σ_j g_j·D·g_j of each coverage group."""


class KernelSweep:
    """Contracts parameters as they become ready; nothing of size batch × parameters is kept.

    Args:
        update: the U side.
        evaluation: the E side, or None.
        weights_U: w, in the order of the U side's micro-batches.
        preconditioner: D.
        parameters: the trained parameters by name.
        groups: coverage group of each name.
        with_uu: whether K(U,U) is wanted.
        with_drift: whether the terms of momentum and decay are.
        with_norms: whether every sequence's norms are.
        stopwatch: told which phase begins and ends.
    """

    def __init__(
        self,
        update: Side,
        evaluation: Side | None,
        weights_U: Tensor,
        preconditioner: Preconditioner,
        parameters: Mapping[str, Tensor],
        groups: Mapping[str, str],
        *,
        with_uu: bool = True,
        with_drift: bool = True,
        with_norms: bool = True,
        stopwatch: Stopwatch = unwatched,
    ) -> None:
        self.update, self.evaluation, self.with_uu = update, evaluation, with_uu
        self.preconditioner, self.parameters, self.groups = preconditioner, parameters, groups
        self.with_drift, self.with_norms, self.watch = with_drift, with_norms, stopwatch
        example = next(iter(parameters.values()))
        self.device, self.dtype = example.device, work_type(example.dtype)
        self.wide = torch.float64 if self.device.type == "cpu" else sum_type(example)
        exact = sum_type(example) if self.device.type == "cuda" else self.dtype
        self.weights_U = weights_U.to(self.device, exact)
        self.count_u = len(update)
        self.count = self.count_u + (0 if evaluation is None else len(evaluation))
        self.triangular = with_uu and not with_drift and self.count_u >= TRIANGLE_FROM
        self._rooms: dict[str, Tensor] = {}
        self.sums = self._empty()

    def _empty(self) -> KernelSums:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=self.wide, device=self.device)

        rows = self.count if self.with_uu else self.count - self.count_u
        return KernelSums(
            kernel=zeros(rows, self.count_u),
            drift=zeros(rows, 2) if self.with_drift else None,
            squares=zeros(self.count, 2) if self.with_norms else None,
            gradient_square=zeros(),
            traces={group: zeros() for group in set(self.groups.values())},
        )

    def consume(self, names: Sequence[str]) -> None:
        """Contract these parameters and let their factors go."""
        for name in names:
            for tile in self._tiles(name):
                self._contract(tile)
            self.update.drop([name])
            if self.evaluation is not None:
                self.evaluation.drop([name])

    def _tiles(self, name: str) -> list[Tile]:
        uses = [each for record in self.update.records for each in record.factors.get(name, [])]
        room = TILE_BYTES_GPU if self.device.type == "cuda" else TILE_BYTES_CPU
        return list(
            tiles_of(
                name,
                self.parameters[name],
                values=max(1, room // (self.dtype.itemsize * self.count)),
                most_rows=MOST_ROWS_GPU if self.device.type == "cuda" else 1 << 30,
                dtype=self.dtype,
                by_rows=any(each.by_rows for each in uses),
            )
        )

    def _contract(self, tile: Tile) -> None:
        with self.watch("per-sequence gradients"):
            grads_NP = self._rows(tile)
        with self.watch("scaling"):
            right_XP, diagonal_P = self._right_side(tile, grads_NP[: self.count_u])
        with self.watch("kernel products"):
            self._add_products(tile, grads_NP, right_XP)
        if self.sums.squares is not None:
            with self.watch("norms"):
                self.sums.squares += square_sums(grads_NP, diagonal_P).to(self.wide)

    def _rows(self, tile: Tile) -> Tensor:
        out_NRC = self._room("left", self.count, *tile.shape)
        self.update.rows(tile, out_NRC[: self.count_u])
        if self.evaluation is not None:
            self.evaluation.rows(tile, out_NRC[self.count_u :])
        return out_NRC.flatten(1)

    def _room(self, use: str, *shape: int) -> Tensor:
        """Memory taken once and used for every tile: fresh pages would cost more than the work."""
        need = math.prod(shape)
        if use not in self._rooms or self._rooms[use].numel() < need:
            self._rooms[use] = torch.empty(need, dtype=self.dtype, device=self.device)
        return self._rooms[use][:need].view(shape)

    def _right_side(self, tile: Tile, grads_UP: Tensor) -> tuple[Tensor, Tensor]:
        """U's gradients times D, under them the directions of momentum and decay; and D itself."""
        rows = self.count_u + (2 if self.with_drift else 0)
        right_XP = self._room("right", rows, grads_UP.shape[1])
        exact = Tile(*_fields(tile), sum_type(grads_UP), tile.device)
        gradient_P, diagonal_P = self._scaled(exact, grads_UP, right_XP[: self.count_u])
        self.sums.gradient_square += torch.dot(gradient_P, gradient_P)
        if self.with_drift:
            weights_RC = exact.of(self.parameters[tile.name].detach())
            momentum_RC, decay_RC = self.preconditioner.drift(
                exact, weights_RC, diagonal_P.view(tile.shape)
            )
            right_XP[self.count_u] = momentum_RC.reshape(-1)
            right_XP[self.count_u + 1] = decay_RC.reshape(-1)
        return right_XP, diagonal_P

    def _scaled(self, exact: Tile, grads_UP: Tensor, out_UP: Tensor) -> tuple[Tensor, Tensor]:
        """Write U's gradients times D; G up to its sign, and D, in the type that sums are in."""
        adam = self.preconditioner.adam_tile(exact) if can_scale(grads_UP) else None
        done = None if adam is None else adam_scaled(grads_UP, self.weights_U, adam, out_UP)
        if done is not None:
            return done
        gradient_P = -weighted_sum(grads_UP, self.weights_U)
        diagonal_RC = self.preconditioner.diagonal(exact, gradient_P.view(exact.shape))
        diagonal_P = diagonal_RC.reshape(-1)
        scaled_rows(grads_UP, diagonal_P.to(self.dtype), out_UP)
        return gradient_P, diagonal_P

    def _add_products(self, tile: Tile, grads_NP: Tensor, right_XP: Tensor) -> None:
        if self.triangular:
            trace = self._add_triangle(grads_NP, right_XP)
        else:
            trace = self._add_rectangle(grads_NP, right_XP)
        self.sums.traces[self.groups[tile.name]] += trace

    def _add_rectangle(self, grads_NP: Tensor, right_XP: Tensor) -> Tensor:
        left = grads_NP if self.with_uu else grads_NP[self.count_u :]
        # On a CPU the thinner side first is faster; the numbers are the same.
        made = product(left, right_XP.mT) if left.is_cuda else product(right_XP, left.mT).mT
        self.sums.kernel += made[:, : self.count_u]
        if self.sums.drift is not None:
            self.sums.drift += made[:, self.count_u :]
        if self.with_uu:
            return made[: self.count_u, : self.count_u].diagonal().sum(dtype=self.wide)
        return (grads_NP[: self.count_u] * right_XP[: self.count_u]).sum(dtype=self.wide)

    def _add_triangle(self, grads_NP: Tensor, right_UP: Tensor) -> Tensor:
        """All but the first half of U against the second, which `finished` mirrors."""
        half = self.count_u // 2
        first = product(grads_NP, right_UP[:half].mT)
        second = product(grads_NP[half:], right_UP[half:].mT)
        self.sums.kernel[:, :half] += first
        self.sums.kernel[half:, half:] += second
        own = [each.diagonal().sum(dtype=self.wide) for each in (first, second)]
        return own[0] + own[1]

    def finished(self) -> KernelSums:
        """The sums, once every parameter has been consumed."""
        if self.triangular:
            half, kernel = self.count_u // 2, self.sums.kernel
            kernel[:half, half:] = kernel[half : self.count_u, :half].mT
        return self.sums


@fused
def weighted_sum(grads_NP: Tensor, weights_N: Tensor) -> Tensor:
    """[P] Σ_j w_j g_j, in float32 for the half types."""
    if grads_NP.is_cuda:  # compiled into one pass over the gradients
        wide = sum_type(grads_NP)
        return (grads_NP.to(wide) * weights_N.to(wide)[:, None]).sum(0)
    return product(weights_N[None], grads_NP)[0]


@fused
def scaled_rows(grads_NP: Tensor, diagonal_P: Tensor, out_NP: Tensor) -> None:
    """Every row times D."""
    torch.mul(grads_NP, diagonal_P, out=out_NP)


@fused
def square_sums(grads_NP: Tensor, diagonal_P: Tensor) -> Tensor:
    """[N, 2] g·D·g and g·g; the gradients may be used up."""
    wide = sum_type(grads_NP)
    diagonal_P = diagonal_P.to(wide)
    if grads_NP.is_cuda:  # compiled into one pass
        squares_NP = grads_NP.to(wide).square()
        return torch.stack([(squares_NP * diagonal_P).sum(1), squares_NP.sum(1)], dim=1)
    squares_NP = grads_NP.to(wide).square_()  # nobody reads the gradients after this
    return torch.stack([squares_NP @ diagonal_P, squares_NP.sum(1)], dim=1)


def _fields(tile: Tile) -> tuple[str, int, int, int, int]:
    return tile.name, tile.axis, tile.start, tile.stop, tile.columns


def work_type(dtype: torch.dtype) -> torch.dtype:
    """What tiles are computed in: float16 has too small a range for D."""
    return torch.float32 if dtype == torch.float16 else dtype
