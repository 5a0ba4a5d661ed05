"""One tile of per-sequence gradients turned into its part of the kernel.

Shapes: U and E sequences of the two sides, N of both, R rows and C columns of a tile, P = R·C, X
rows of the right side: U, and under them the directions of momentum and decay.
"""

# ruff: noqa: N802, N803, N806, N815 - names end in their shape
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from midstep.influence.factors import product, sum_type
from midstep.influence.fused import fused
from midstep.influence.scaling import adam_scaled, can_scale
from midstep.influence.stopwatch import Stopwatch, unwatched

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.preconditioners import Preconditioner
    from midstep.influence.sides import Side
    from midstep.influence.tiles import Tile

__all__ = ["Contraction", "KernelSums", "SweepTask", "inner_products"]

TRIANGLE_FROM = 512
"""From this many sequences of U on, what the symmetry of K(U,U) spares outweighs the split."""

PIECE_VALUES = 2**15
"""Of each row, in one matrix product on a CPU: short and long together they stay in its cache."""


@dataclass(frozen=True, kw_only=True)
class SweepTask:
    """What all threads of a sweep share, and none of them changes."""

    update: Side
    evaluation: Side | None
    weights_U: Tensor
    """W, in the order of the U side's micro-batches."""
    preconditioner: Preconditioner
    parameters: Mapping[str, Tensor]
    groups: Mapping[str, str]
    """Coverage group of each parameter."""
    with_uu: bool = True
    with_drift: bool = True
    with_norms: bool = True

    @cached_property
    def example(self) -> Tensor:
        """Some parameter, for device and type."""
        return next(iter(self.parameters.values()))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.example.device

    @cached_property
    def dtype(self) -> torch.dtype:
        """What tiles are computed in: float16 has too small a range for D."""
        own = self.example.dtype
        return torch.float32 if own == torch.float16 else own

    @cached_property
    def wide(self) -> torch.dtype:
        """What sums over tiles are kept in."""
        return torch.float64 if self.device.type == "cpu" else sum_type(self.example)

    @cached_property
    def exact_weights_U(self) -> Tensor:
        """W where the model is, never shorter than sums over sequences are."""
        return self.weights_U.to(self.device, sum_type(self.example))

    @cached_property
    def count_u(self) -> int:
        """Sequences of U."""
        return len(self.update)

    @cached_property
    def count(self) -> int:
        """Sequences of both sides."""
        return self.count_u + (0 if self.evaluation is None else len(self.evaluation))

    @property
    def triangular(self) -> bool:
        """Whether K(U,U) is computed by halves and mirrored."""
        return self.with_uu and not self.with_drift and self.count_u >= TRIANGLE_FROM


@dataclass
class KernelSums:
    """What the sweep adds up, in the order of the micro-batches: U first, then E (N of both)."""

    kernel: Tensor
    """[N, U], or [E, U] without K(U,U)."""
    drift: Tensor | None
    """The same rows: inner products with the directions of momentum and decay, [·, 2]."""
    squares: Tensor | None
    """[N, 2] g·D·g and g·g."""
    gradient_square: Tensor
    """|G|², before clipping."""
    traces: dict[str, Tensor]
    """Σ_j g_j·D·g_j of each coverage group."""

    @classmethod
    def empty(cls, task: SweepTask) -> KernelSums:
        """Zeros."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=task.wide, device=task.device)

        rows = task.count if task.with_uu else task.count - task.count_u
        return cls(
            kernel=zeros(rows, task.count_u),
            drift=zeros(rows, 2) if task.with_drift else None,
            squares=zeros(task.count, 2) if task.with_norms else None,
            gradient_square=zeros(),
            traces={group: zeros() for group in sorted(set(task.groups.values()))},
        )

    def add(self, other: KernelSums) -> None:
        """Add the sums of other tiles of the same task."""
        self.kernel += other.kernel
        if self.drift is not None and other.drift is not None:
            self.drift += other.drift
        if self.squares is not None and other.squares is not None:
            self.squares += other.squares
        self.gradient_square += other.gradient_square
        for group, trace in other.traces.items():
            self.traces[group] += trace


class Contraction:
    """Tiles one after the other, with sums and scratch memory of its own.

    Args:
        task: shared with others.
        stopwatch: told which phase begins and ends.
    """

    def __init__(self, task: SweepTask, stopwatch: Stopwatch = unwatched) -> None:
        self.task, self.watch = task, stopwatch
        self._rooms: dict[str, Tensor] = {}
        self.sums = KernelSums.empty(task)

    def add(self, tile: Tile) -> None:
        """Contract a tile into the sums."""
        with self.watch("per-sequence gradients"):
            grads_NP = self._rows(tile)
        with self.watch("scaling"):
            right_XP, diagonal_P = self._right_side(tile, grads_NP[: self.task.count_u])
        with self.watch("kernel products"):
            self._add_products(tile, grads_NP, right_XP)
        if self.sums.squares is not None:
            with self.watch("norms"):
                self.sums.squares += square_sums(grads_NP, diagonal_P)

    def _rows(self, tile: Tile) -> Tensor:
        task = self.task
        out_NRC = self._room("left", task.dtype, task.count, *tile.shape)
        task.update.rows(tile, out_NRC[: task.count_u])
        if task.evaluation is not None:
            task.evaluation.rows(tile, out_NRC[task.count_u :])
        return out_NRC.flatten(1)

    def _room(self, use: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Memory taken once and used for every tile: fresh pages would cost more than the work."""
        need = math.prod(shape)
        if use not in self._rooms or self._rooms[use].numel() < need:
            self._rooms[use] = torch.empty(need, dtype=dtype, device=self.task.device)
        return self._rooms[use][:need].view(shape)

    def _right_side(self, tile: Tile, grads_UP: Tensor) -> tuple[Tensor, Tensor]:
        """U's gradients times D, under them the directions of momentum and decay; and D itself."""
        task = self.task
        exact = replace(tile, dtype=sum_type(grads_UP))
        if task.preconditioner.name == "sgd" and not task.with_drift:
            gradient_P = self._weighted_sum(grads_UP)
            right_XP, diagonal_P = grads_UP, task.preconditioner.diagonal(exact, None).reshape(-1)
        else:
            rows = task.count_u + (2 if task.with_drift else 0)
            right_XP = self._room("right", task.dtype, rows, grads_UP.shape[1])
            gradient_P, diagonal_P = self._scaled(exact, grads_UP, right_XP[: task.count_u])
        self.sums.gradient_square += torch.dot(gradient_P, gradient_P)
        if task.with_drift:
            self._drift(exact, diagonal_P.view(tile.shape), right_XP[task.count_u :])
        return right_XP, diagonal_P

    def _drift(self, exact: Tile, diagonal_RC: Tensor, out_2P: Tensor) -> None:
        """Write the directions of momentum and decay."""
        weights_RC = exact.of(self.task.parameters[exact.name].detach())
        rows = out_2P.view(2, *exact.shape)
        fits = out_2P.dtype == exact.dtype
        made = self.task.preconditioner.drift(
            exact, weights_RC, diagonal_RC, out=(rows[0], rows[1]) if fits else None
        )
        if not fits:
            for row, each in zip(rows, made, strict=True):
                row.copy_(each)

    def _scaled(self, exact: Tile, grads_UP: Tensor, out_UP: Tensor) -> tuple[Tensor, Tensor]:
        """Write U's gradients times D; G up to its sign, and D, in the type that sums are in."""
        task = self.task
        adam = task.preconditioner.adam_tile(exact) if can_scale(grads_UP) else None
        weights_U = task.exact_weights_U
        done = None if adam is None else adam_scaled(grads_UP, weights_U, adam, out_UP)
        if done is not None:
            return done
        gradient_P = self._weighted_sum(grads_UP)
        diagonal_RC = task.preconditioner.diagonal(
            exact,
            gradient_P.view(exact.shape),
            out_RC=self._room("diagonal", exact.dtype, *exact.shape),
        )
        diagonal_P = diagonal_RC.reshape(-1)
        scaled_rows(grads_UP, diagonal_P.to(task.dtype), out_UP)
        return gradient_P, diagonal_P

    def _weighted_sum(self, grads_UP: Tensor) -> Tensor:
        """G up to its sign, which D does not see."""
        weights_U = self.task.exact_weights_U
        if grads_UP.is_cuda or grads_UP.dtype != weights_U.dtype:
            return weighted_sum(grads_UP, weights_U)
        out_1P = self._room("gradient", weights_U.dtype, 1, grads_UP.shape[1])
        return torch.mm(weights_U[None], grads_UP, out=out_1P)[0]

    def _add_products(self, tile: Tile, grads_NP: Tensor, right_XP: Tensor) -> None:
        add = self._triangle if self.task.triangular else self._rectangle
        self.sums.traces[self.task.groups[tile.name]] += add(grads_NP, right_XP)

    def _rectangle(self, grads_NP: Tensor, right_XP: Tensor) -> Tensor:
        count_u, wide = self.task.count_u, self.task.wide
        left = grads_NP if self.task.with_uu else grads_NP[count_u:]
        made = inner_products(left, right_XP)
        self.sums.kernel += made[:, :count_u]
        if self.sums.drift is not None:
            self.sums.drift += made[:, count_u:]
        if self.task.with_uu:
            return made[:count_u, :count_u].diagonal().sum(dtype=wide)
        return trace_of(grads_NP[:count_u], right_XP[:count_u]).to(wide)

    def _triangle(self, grads_NP: Tensor, right_UP: Tensor) -> Tensor:
        """All but the first half of U against the second, which `mirrored` fills in."""
        half, wide = self.task.count_u // 2, self.task.wide
        first = inner_products(grads_NP, right_UP[:half])
        second = inner_products(grads_NP[half:], right_UP[half:])
        self.sums.kernel[:, :half] += first
        self.sums.kernel[half:, half:] += second
        own = [each.diagonal().sum(dtype=wide) for each in (first, second)]
        return own[0] + own[1]


def mirrored(task: SweepTask, sums: KernelSums) -> KernelSums:
    """The sums with the half of K(U,U) that its symmetry spared."""
    if task.triangular:
        half = task.count_u // 2
        sums.kernel[:half, half:] = sums.kernel[half : task.count_u, :half].mT
    return sums


def inner_products(left_NP: Tensor, right_XP: Tensor) -> Tensor:
    """[N, X] of every row with every row; on a CPU piece by piece, the pieces summed in float64."""
    if left_NP.is_cuda:
        return product(left_NP, right_XP.mT)
    total_XN = torch.zeros(len(right_XP), len(left_NP), dtype=torch.float64)
    for start in range(0, left_NP.shape[1], PIECE_VALUES):
        part = slice(start, start + PIECE_VALUES)
        # The thinner side first is faster; the numbers are the same.
        total_XN += right_XP[:, part] @ left_NP[:, part].mT
    return total_XN.mT


def trace_of(left_UP: Tensor, right_UP: Tensor) -> Tensor:
    """Σ_j of each row with its own."""
    if left_UP.is_cuda:
        return (left_UP * right_UP).sum(dtype=sum_type(left_UP))
    own_U: Tensor = torch.linalg.vecdot(left_UP, right_UP)
    return own_U.sum(dtype=torch.float64)


@fused
def weighted_sum(grads_NP: Tensor, weights_N: Tensor) -> Tensor:
    """[P] Σ_j w_j g_j, in float32 for the half types."""
    wide = sum_type(grads_NP)
    return (grads_NP.to(wide) * weights_N.to(wide)[:, None]).sum(0)


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
