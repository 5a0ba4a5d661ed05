"""What a computation will cost, and which algorithm suits it; said before it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Algorithm", "CostPlan", "Mode", "Workload", "choose", "measured_rate"]

Algorithm = Literal["auto", "sweep", "direction", "jvp", "resident"]
Mode = Literal["auto", "resident", "bounded"]
ALGORITHMS = ("auto", "sweep", "direction", "jvp", "resident")
MODES = ("auto", "resident", "bounded")
SMALL_BYTES = 256 * 2**20
"""Full per-sequence gradients up to this size are simply kept."""
MEMORY_SHARE = 0.5
"""Of the free memory, what activations may take before blocks are run again instead."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The sizes that decide a cost."""

    sequences_u: int
    sequences_e: int
    tokens_u: int
    """Padding included."""
    tokens_e: int
    parameters: int
    """Trained and counted."""
    parameters_all: int
    """What a forward pass goes through."""
    layer_values: int
    """Values a token leaves at all recorded modules (inputs and output gradients)."""
    block_values: int
    """The same for the largest block."""
    width: int
    blocks: int
    vocabulary: int
    item_bytes: int
    wants_kernel: bool
    norm_first: bool
    """Clipping by norm needs G before the sweep: one more pass over U."""
    splittable: bool
    """Whether blocks and head were found."""
    parameters_spared: int = 0
    """Of the maps at the end of blocks that are left out when blocks run again."""


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """An algorithm with its cost."""

    algorithm: str
    mode: str | None
    flops: float
    bytes: int
    """Memory beyond weights and optimizer state, at its largest."""
    seconds: float
    reason: str

    def describe(self) -> str:
        """One line to print before the work starts."""
        mode = f" ({self.mode})" if self.mode else ""
        return (
            f"{self.algorithm}{mode}: {self.flops / 1e12:.3g} TFLOP, "
            f"{self.bytes / 2**30:.3g} GiB, about {self.seconds:.3g} s; {self.reason}"
        )


def choose(
    work: Workload, algorithm: Algorithm, mode: Mode, *, rate: float, free_bytes: int
) -> CostPlan:
    """The algorithm asked for, or for `auto` the cheapest that fits, with its cost.

    Args:
        work: sizes.
        algorithm: a name, or auto.
        mode: of the sweep.
        rate: FLOP/s of a matrix product.
        free_bytes: memory that may be used.
    """
    if algorithm not in ALGORITHMS or mode not in MODES:
        raise ConfigError(
            f"algorithm {algorithm!r} with mode {mode!r}: algorithms are {', '.join(ALGORITHMS)}; "
            f"modes of the sweep are {', '.join(MODES)}"
        )
    if mode == "bounded" and not work.splittable:
        raise ConfigError(
            "mode 'bounded' needs a model whose blocks and head can be run apart; "
            "use mode='resident'"
        )
    if algorithm != "auto":
        return _priced(work, algorithm, _mode(work, mode, free_bytes), rate, "as asked")
    if not work.wants_kernel:
        return _priced(work, "direction", None, rate, "only Δ is wanted")
    if _gradient_bytes(work) <= SMALL_BYTES:
        return _priced(
            work, "resident", None, rate, "all per-sequence gradients are small enough to keep"
        )
    picked = _mode(work, mode, free_bytes)
    reason = "activations fit in memory" if picked == "resident" else "activations would not fit"
    return _priced(work, "sweep", picked, rate, reason if mode == "auto" else "mode as asked")


def _mode(work: Workload, mode: Mode, free_bytes: int) -> str:
    if mode != "auto":
        return mode
    fits = _activation_bytes(work) <= MEMORY_SHARE * free_bytes
    return "resident" if fits or not work.splittable else "bounded"


def _tokens(work: Workload) -> int:
    return work.tokens_u + work.tokens_e


def _gradient_bytes(work: Workload) -> int:
    return work.parameters * (work.sequences_u + work.sequences_e) * work.item_bytes


def _activation_bytes(work: Workload) -> int:
    return work.layer_values * _tokens(work) * work.item_bytes


def _priced(work: Workload, algorithm: str, mode: str | None, rate: float, reason: str) -> CostPlan:
    passes = 2 * work.parameters_all * _tokens(work)  # one forward; input gradients cost the same
    pairs = work.sequences_u * (work.sequences_u + work.sequences_e)
    kernel = 2 * work.parameters * (_tokens(work) + pairs)
    head_again = 2 * work.vocabulary * work.width * _tokens(work)
    extra = 6 * work.parameters_all * work.tokens_u if work.norm_first else 0
    if algorithm in {"sweep", "resident"}:
        flops = 2 * passes + kernel + head_again + extra
        memory = _activation_bytes(work) if algorithm == "sweep" else _gradient_bytes(work)
        if algorithm == "sweep" and mode == "bounded":
            again = work.parameters_all - work.vocabulary * work.width - work.parameters_spared
            flops += 2 * again * _tokens(work)
            borders = (work.blocks + 4) * work.width + work.block_values
            memory = borders * _tokens(work) * work.item_bytes
    else:
        flops = 6 * work.parameters_all * _tokens(work)
        memory = 4 * work.parameters * work.item_bytes
    memory += 8 * pairs
    return CostPlan(
        algorithm=algorithm,
        mode=mode if algorithm == "sweep" else None,
        flops=float(flops),
        bytes=int(memory),
        seconds=flops / rate,
        reason=reason,
    )


def measured_rate(
    device: torch.device, dtype: torch.dtype, sizes: Sequence[int] = (384, 2048)
) -> float:
    """FLOP/s of a matrix product of this type here, measured in a moment."""
    size = sizes[1] if device.type == "cuda" else sizes[0]
    left = torch.ones(size, size, dtype=dtype, device=device)
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        product = left @ left
        if device.type == "cuda":
            product[0, 0].item()
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / max(best, 1e-9)
