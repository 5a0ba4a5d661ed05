"""Contract tiles of per-sequence gradients into the kernel, K_ij = g_i · D · g_j.

For each tile: gradients of all sequences from their factors, G = Σ_j w_j g_j, D from G, U's
gradients times D, and one matrix product. Nothing of size batch × parameters is stored. D is
applied once, to the U side, because only its product with both sides is needed.

Shapes: U and E sequences of the two batches, N of both, R rows and C columns of a tile, P = R·C, X
rows of the right side: U, and below them the directions of momentum and decay.
"""

# ruff: noqa: N802, N815 - names end in their shape

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from midstep.influence.gradients.execution import PhaseTimer, fused, no_timer, run_in_threads
from midstep.influence.gradients.factors import accumulation_dtype, matmul_wide
from midstep.influence.gradients.tiles import split_into_tiles
from midstep.influence.optimizers.triton_scaling import adam_scaled, can_scale

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.gradient_recorder import RecordedBatch
    from midstep.influence.gradients.tiles import Tile
    from midstep.influence.optimizers.preconditioners import Preconditioner


MIN_TRIANGULAR = 512
"""With at least this many sequences of U, only one half of the symmetric K(U,U) is computed. With
fewer the saved product is smaller than the cost of splitting it in two."""

CHUNK_VALUES = 2**15
"""Values of each row in one matrix product on a CPU, so that both factors stay in its cache."""


@dataclass(frozen=True, kw_only=True)
class SweepInputs:
    """What all threads of a sweep read and none of them changes."""

    update: RecordedBatch
    evaluation: RecordedBatch | None
    weights_U: Tensor
    """Weights w, in the order of U's micro-batches."""
    preconditioner: Preconditioner
    parameters: Mapping[str, Tensor]
    groups: Mapping[str, str]
    """Coverage group of each parameter."""
    with_uu: bool = True
    with_momentum_decay: bool = True
    with_norms: bool = True

    @cached_property
    def example(self) -> Tensor:
        """Any parameter; it gives device and type."""
        return next(iter(self.parameters.values()))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.example.device

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of tiles. Not float16: D reaches 1/ε = 1e8, which is beyond its range."""
        dtype = self.example.dtype
        return torch.float32 if dtype == torch.float16 else dtype

    @cached_property
    def sum_dtype(self) -> torch.dtype:
        """The type of sums over tiles: float64 on a CPU, where they are little of the work."""
        return torch.float64 if self.device.type == "cpu" else accumulation_dtype(self.example)

    @cached_property
    def exact_weights_U(self) -> Tensor:
        """Weights w on the model's device, in the type of sums over sequences."""
        return self.weights_U.to(self.device, accumulation_dtype(self.example))

    @cached_property
    def count_u(self) -> int:
        """Sequences of U."""
        return len(self.update)

    @cached_property
    def count(self) -> int:
        """Sequences of both sides."""
        return self.count_u + (0 if self.evaluation is None else len(self.evaluation))

    @property
    def is_triangular(self) -> bool:
        """Whether one half of K(U,U) is computed and mirrored.

        Not with momentum and decay: they are extra columns of the same product.
        """
        return self.with_uu and not self.with_momentum_decay and self.count_u >= MIN_TRIANGULAR


@dataclass
class KernelSums:
    """The sums of a sweep. Rows are in the order of the micro-batches: U first, then E."""

    kernel: Tensor
    """[N, U], or [E, U] without K(U,U)."""
    momentum_decay: Tensor | None
    """Inner products of the same rows with the directions of momentum and decay, [·, 2]."""
    squares: Tensor | None
    """[N, 2] g·D·g and g·g."""
    gradient_square: Tensor
    """|G|², before clipping."""
    traces: dict[str, Tensor]
    """Σ_j g_j·D·g_j of each coverage group."""

    @classmethod
    def empty(cls, inputs: SweepInputs) -> KernelSums:
        """Sums of no tiles: zeros."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=inputs.sum_dtype, device=inputs.device)

        rows = inputs.count if inputs.with_uu else inputs.count - inputs.count_u
        return cls(
            kernel=zeros(rows, inputs.count_u),
            momentum_decay=zeros(rows, 2) if inputs.with_momentum_decay else None,
            squares=zeros(inputs.count, 2) if inputs.with_norms else None,
            gradient_square=zeros(),
            traces={group: zeros() for group in sorted(set(inputs.groups.values()))},
        )

    def add(self, other: KernelSums) -> None:
        """Add the sums that another thread made of other tiles."""
        self.kernel += other.kernel
        if self.momentum_decay is not None and other.momentum_decay is not None:
            self.momentum_decay += other.momentum_decay
        if self.squares is not None and other.squares is not None:
            self.squares += other.squares
        self.gradient_square += other.gradient_square
        for group, trace in other.traces.items():
            self.traces[group] += trace


class TileContraction:
    """Contracts tiles one after the other, into its own sums. Each thread of a sweep has one.

    Args:
        inputs: shared with the other threads.
        timer: called with the name of each phase.
    """

    def __init__(self, inputs: SweepInputs, timer: PhaseTimer = no_timer) -> None:
        self.inputs, self.timer = inputs, timer
        self._buffers: dict[str, Tensor] = {}
        self.sums = KernelSums.empty(inputs)

    def add(self, tile: Tile) -> None:
        """Contract a tile, and add it to the sums."""
        with self.timer("per-sequence gradients"):
            grads_NP = self._gradient_rows(tile)
        with self.timer("scaling"):
            right_XP, diagonal_P = self._right_side(tile, grads_NP[: self.inputs.count_u])
        with self.timer("kernel products"):
            add_products = self._add_triangle if self.inputs.is_triangular else self._add_rectangle
            self.sums.traces[self.inputs.groups[tile.name]] += add_products(grads_NP, right_XP)
        if self.sums.squares is not None:
            with self.timer("norms"):
                self.sums.squares += square_sums(grads_NP, diagonal_P)

    def _gradient_rows(self, tile: Tile) -> Tensor:
        inputs = self.inputs
        out_NRC = self._buffer("left", inputs.dtype, inputs.count, *tile.shape)
        inputs.update.rows(tile, out_NRC[: inputs.count_u])
        if inputs.evaluation is not None:
            inputs.evaluation.rows(tile, out_NRC[inputs.count_u :])
        return out_NRC.flatten(1)

    def _buffer(self, use: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Memory that all tiles share: page faults of new memory would cost more than the work."""
        need = math.prod(shape)
        if use not in self._buffers or self._buffers[use].numel() < need:
            self._buffers[use] = torch.empty(need, dtype=dtype, device=self.inputs.device)
        return self._buffers[use][:need].view(shape)

    def _right_side(self, tile: Tile, grads_UP: Tensor) -> tuple[Tensor, Tensor]:
        """U's gradients times D, below them the directions of momentum and decay; and D itself."""
        inputs = self.inputs
        # D and G are computed in float32 for half-precision models: bfloat16 has 8 bits for v'.
        exact_tile = replace(tile, dtype=accumulation_dtype(grads_UP))
        # D = 1 needs neither a product nor a second buffer.
        if inputs.preconditioner.is_identity and not inputs.with_momentum_decay:
            gradient_P = self._weighted_sum(grads_UP)
            right_XP = grads_UP
            diagonal_P = inputs.preconditioner.diagonal(exact_tile, None).reshape(-1)
        else:
            rows = inputs.count_u + (2 if inputs.with_momentum_decay else 0)
            right_XP = self._buffer("right", inputs.dtype, rows, grads_UP.shape[1])
            gradient_P, diagonal_P = self._scale(exact_tile, grads_UP, right_XP[: inputs.count_u])
        self.sums.gradient_square += torch.dot(gradient_P, gradient_P)
        if inputs.with_momentum_decay:
            self._write_momentum_decay(
                exact_tile, diagonal_P.view(tile.shape), right_XP[inputs.count_u :]
            )
        return right_XP, diagonal_P

    def _write_momentum_decay(self, exact_tile: Tile, diagonal_RC: Tensor, out_2P: Tensor) -> None:
        """Write the directions of momentum and decay to two rows of the right side."""
        # A parameter without a gradient is skipped by the optimizer, also its momentum and decay.
        if not self.inputs.update.reaches(exact_tile.name):
            out_2P.zero_()
            return
        weights_RC = exact_tile.take(self.inputs.parameters[exact_tile.name].detach())
        rows = out_2P.view(2, *exact_tile.shape)
        # Half-precision models: compute in float32, then copy into the rows.
        same_dtype = out_2P.dtype == exact_tile.dtype
        directions = self.inputs.preconditioner.momentum_and_decay(
            exact_tile, weights_RC, diagonal_RC, out=(rows[0], rows[1]) if same_dtype else None
        )
        if not same_dtype:
            for row, each in zip(rows, directions, strict=True):
                row.copy_(each)

    def _scale(self, exact_tile: Tile, grads_UP: Tensor, out_UP: Tensor) -> tuple[Tensor, Tensor]:
        """Write U's gradients times D to `out_UP`, and return Σ_j w_j g_j = −G and D."""
        inputs = self.inputs
        adam = inputs.preconditioner.adam_tile(exact_tile) if can_scale(grads_UP) else None
        weights_U = inputs.exact_weights_U
        scaled = None if adam is None else adam_scaled(grads_UP, weights_U, adam, out_UP)
        if scaled is not None:
            return scaled
        gradient_P = self._weighted_sum(grads_UP)
        diagonal_RC = inputs.preconditioner.diagonal(
            exact_tile,
            gradient_P.view(exact_tile.shape),
            out_RC=self._buffer("diagonal", exact_tile.dtype, *exact_tile.shape),
        )
        diagonal_P = diagonal_RC.reshape(-1)
        scale_rows(grads_UP, diagonal_P.to(inputs.dtype), out_UP)
        return gradient_P, diagonal_P

    def _weighted_sum(self, grads_UP: Tensor) -> Tensor:
        """Σ_j w_j g_j = −G. D depends on G², so the sign does not matter."""
        weights_U = self.inputs.exact_weights_U
        # One product into a reused buffer, without a temporary of the tile's size.
        if grads_UP.is_cuda or grads_UP.dtype != weights_U.dtype:
            return weighted_sum(grads_UP, weights_U)
        out_1P = self._buffer("gradient", weights_U.dtype, 1, grads_UP.shape[1])
        return torch.mm(weights_U[None], grads_UP, out=out_1P)[0]

    def _add_rectangle(self, grads_NP: Tensor, right_XP: Tensor) -> Tensor:
        count_u, dtype = self.inputs.count_u, self.inputs.sum_dtype
        left = grads_NP if self.inputs.with_uu else grads_NP[count_u:]
        products = inner_products(left, right_XP)
        self.sums.kernel += products[:, :count_u]
        if self.sums.momentum_decay is not None:
            self.sums.momentum_decay += products[:, count_u:]
        # The diagonal of K(U,U) is the trace; without that block it is a product of its own.
        if self.inputs.with_uu:
            return products[:count_u, :count_u].diagonal().sum(dtype=dtype)
        return trace_of_products(grads_NP[:count_u], right_XP[:count_u]).to(dtype)

    def _add_triangle(self, grads_NP: Tensor, right_UP: Tensor) -> Tensor:
        """All products but U's first half with its second, which `KernelSweep.total` adds."""
        half, dtype = self.inputs.count_u // 2, self.inputs.sum_dtype
        first = inner_products(grads_NP, right_UP[:half])
        second = inner_products(grads_NP[half:], right_UP[half:])
        self.sums.kernel[:, :half] += first
        self.sums.kernel[half:, half:] += second
        return first.diagonal().sum(dtype=dtype) + second.diagonal().sum(dtype=dtype)


def inner_products(left_NP: Tensor, right_XP: Tensor) -> Tensor:
    """[N, X] inner products of all pairs of rows; on a CPU in chunks, summed in float64."""
    if left_NP.is_cuda:
        return matmul_wide(left_NP, right_XP.mT)
    total_XN = torch.zeros(len(right_XP), len(left_NP), dtype=torch.float64)
    for start in range(0, left_NP.shape[1], CHUNK_VALUES):
        part = slice(start, start + CHUNK_VALUES)
        # Fewer rows on the left is faster; the numbers are the same.
        total_XN += right_XP[:, part] @ left_NP[:, part].mT
    return total_XN.mT


def trace_of_products(left_UP: Tensor, right_UP: Tensor) -> Tensor:
    """Σ_j left_j · right_j, the trace of the product."""
    if left_UP.is_cuda:
        return (left_UP * right_UP).sum(dtype=accumulation_dtype(left_UP))
    products_U: Tensor = torch.linalg.vecdot(left_UP, right_UP)
    return products_U.sum(dtype=torch.float64)


@fused
def weighted_sum(grads_NP: Tensor, weights_N: Tensor) -> Tensor:
    """[P] Σ_j w_j g_j, in float32 for half precision."""
    dtype = accumulation_dtype(grads_NP)
    return (grads_NP.to(dtype) * weights_N.to(dtype)[:, None]).sum(0)


@fused
def scale_rows(grads_NP: Tensor, diagonal_P: Tensor, out_NP: Tensor) -> None:
    """Write every row times D to `out_NP`."""
    torch.mul(grads_NP, diagonal_P, out=out_NP)


@fused
def square_sums(grads_NP: Tensor, diagonal_P: Tensor) -> Tensor:
    """[N, 2] g·D·g and g·g. The gradients may be overwritten."""
    dtype = accumulation_dtype(grads_NP)
    diagonal_P = diagonal_P.to(dtype)
    if grads_NP.is_cuda:  # compiled into one pass over the gradients
        squares_NP = grads_NP.to(dtype).square()
        return torch.stack([(squares_NP * diagonal_P).sum(1), squares_NP.sum(1)], dim=1)
    squares_NP = grads_NP.to(dtype).square_()  # last use of the gradients of this tile
    return torch.stack([squares_NP @ diagonal_P, squares_NP.sum(1)], dim=1)


TILE_BYTES_CPU = 6 * 2**20  # gradients of a tile stay in the caches between the passes over them
TILE_BYTES_GPU = 4 * 2**30
MAX_ROWS_GPU = 512
"""Rows of a tile on a GPU. On an H200 the kernel's matrix product runs at 646 TFLOP/s with gradient
rows 1.6 MB apart, and at 475 with 3 to 5.5 MB."""

MIN_THREADED_VALUES = 2**20
"""With fewer gradient values, starting threads costs more than it saves."""


class KernelSweep:
    """Contracts parameters as they become ready.

    On a CPU, as many threads as torch uses take whole tiles in turn. A tile always goes to the same
    thread, so results are the same in every run; another number of threads changes the rounding.

    Args:
        inputs: batches, weights, preconditioner and what is wanted.
        timer: called with the name of each phase of the first thread.
    """

    def __init__(self, inputs: SweepInputs, *, timer: PhaseTimer = no_timer) -> None:
        self.inputs = inputs
        self._contractions = [TileContraction(inputs, timer)]

    def consume(self, names: Sequence[str]) -> None:
        """Contract these parameters and delete their factors."""
        tiles = [tile for name in names for tile in self._tiles(name)]
        threads = self._thread_count(tiles)
        if threads == 1:
            for tile in tiles:
                self._contractions[0].add(tile)
        else:
            # A fixed assignment of tiles, so that sums are the same in every run.
            shares = [tiles[thread::threads] for thread in range(threads)]
            run_in_threads(shares, lambda lane, tile: self._contractions[lane].add(tile))
        self.inputs.update.drop(names)
        if self.inputs.evaluation is not None:
            self.inputs.evaluation.drop(names)

    def _tiles(self, name: str) -> list[Tile]:
        inputs = self.inputs
        uses = [each for record in inputs.update.records for each in record.factors.get(name, [])]
        on_gpu = inputs.device.type == "cuda"
        budget = TILE_BYTES_GPU if on_gpu else TILE_BYTES_CPU
        return list(
            split_into_tiles(
                name,
                inputs.parameters[name],
                max_values=max(1, budget // (inputs.dtype.itemsize * inputs.count)),
                max_rows=MAX_ROWS_GPU if on_gpu else 1 << 30,
                dtype=inputs.dtype,
                by_rows=any(each.by_rows for each in uses),
                transpose=on_gpu,
            )
        )

    def _thread_count(self, tiles: Sequence[Tile]) -> int:
        values = sum(tile.length * tile.other_length for tile in tiles) * self.inputs.count
        if self.inputs.device.type != "cpu" or values < MIN_THREADED_VALUES:
            return 1
        wanted = max(1, min(torch.get_num_threads(), len(tiles)))
        # Only the first has a timer: phases of parallel threads would add up to more than the time.
        while len(self._contractions) < wanted:
            self._contractions.append(TileContraction(self.inputs))
        return wanted

    def total(self) -> KernelSums:
        """The sums of all threads, after every parameter is consumed."""
        first, *others = self._contractions
        for each in others:
            first.sums.add(each.sums)
        self._contractions = [first]
        if self.inputs.is_triangular:
            # The half of K(U,U) that was not computed, from its symmetry.
            kernel, count_u = first.sums.kernel, self.inputs.count_u
            half = count_u // 2
            kernel[:half, half:] = kernel[half:count_u, :half].mT
        return first.sums
