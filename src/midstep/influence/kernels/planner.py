"""Choose the algorithm of a computation, and estimate its cost before it runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.influence.gradients.gradient_recorder import RecordedBatch
    from midstep.influence.gradients.model_parts import ModelParts


Algorithm = Literal["auto", "sweep", "direction", "jvp", "resident"]
Mode = Literal["auto", "resident", "bounded"]
ALGORITHMS = ("auto", "sweep", "direction", "jvp", "resident")
MODES = ("auto", "resident", "bounded")
KEPT_GRADIENTS_BYTES = 256 * 2**20
"""Per-sequence gradients up to this size are kept whole (algorithm resident)."""
MEMORY_SHARE = 0.5
"""Share of the free memory that activations may take; above it blocks run twice instead."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The sizes that the cost depends on."""

    sequences_u: int
    sequences_e: int
    tokens_u: int
    """Tokens of U, padding included."""
    tokens_e: int
    parameters: int
    """Trained parameters that count."""
    parameters_all: int
    """Parameters that a forward pass multiplies by; not tables that it only looks up."""
    layer_values: int
    """Values recorded per token in all modules (inputs and gradients of outputs)."""
    block_values: int
    """The same number for the largest block alone."""
    width: int
    blocks: int
    vocabulary: int
    item_bytes: int
    wants_kernel: bool
    norm_first: bool
    """Clipping by norm needs |G| before the sweep: one more forward and backward pass over U."""
    splittable: bool
    """Whether blocks and head were found."""
    parameters_skipped: int = 0
    """Weights of the linear maps that a second run of the blocks skips."""


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """An algorithm and its estimated cost."""

    algorithm: str
    mode: str | None
    flops: float
    bytes: int
    """Peak memory besides weights and optimizer state."""
    seconds: float
    reason: str

    def describe(self) -> str:
        """One line for the log, before the work starts."""
        mode = f" ({self.mode})" if self.mode else ""
        return (
            f"{self.algorithm}{mode}: {self.flops / 1e12:.3g} TFLOP, "
            f"{self.bytes / 2**30:.3g} GiB, about {self.seconds:.3g} s; {self.reason}"
        )


def choose_algorithm(
    work: Workload, algorithm: Algorithm, mode: Mode, *, rate: float, free_bytes: int
) -> CostPlan:
    """The requested algorithm, or for `auto` the cheapest that fits into memory.

    Args:
        work: sizes of the computation.
        algorithm: a name, or auto.
        mode: mode of the sweep.
        rate: FLOP/s of a matrix product.
        free_bytes: free memory.
    """
    if algorithm not in ALGORITHMS or mode not in MODES:
        raise ConfigError(
            f"got algorithm {algorithm!r}, mode {mode!r}; algorithms are {', '.join(ALGORITHMS)}, "
            f"modes of the sweep are {', '.join(MODES)}"
        )
    if mode == "bounded" and not work.splittable:
        raise ConfigError(
            "mode 'bounded' needs a model whose blocks and head were found; use mode='resident'"
        )
    fits = _activation_bytes(work) <= MEMORY_SHARE * free_bytes or not work.splittable
    chosen_mode = mode if mode != "auto" else "resident" if fits else "bounded"
    if algorithm != "auto":
        return _cost_plan(work, algorithm, chosen_mode, rate, "as asked")
    if not work.wants_kernel:
        return _cost_plan(work, "direction", None, rate, "only Δ is wanted")
    if _gradient_bytes(work) <= KEPT_GRADIENTS_BYTES:
        reason = "all per-sequence gradients are small enough to keep"
        return _cost_plan(work, "resident", None, rate, reason)
    reason = "activations fit in memory" if fits else "activations would not fit"
    if mode != "auto":
        reason = "mode as asked"
    return _cost_plan(work, "sweep", chosen_mode, rate, reason)


def _tokens(work: Workload) -> int:
    return work.tokens_u + work.tokens_e


def _gradient_bytes(work: Workload) -> int:
    return work.parameters * (work.sequences_u + work.sequences_e) * work.item_bytes


def _activation_bytes(work: Workload) -> int:
    return work.layer_values * _tokens(work) * work.item_bytes


def _cost_plan(
    work: Workload, algorithm: str, mode: str | None, rate: float, reason: str
) -> CostPlan:
    # A product of T tokens with P weights takes 2·P·T operations; input gradients take the same.
    passes = 2 * work.parameters_all * _tokens(work)
    pairs = work.sequences_u * (work.sequences_u + work.sequences_e)
    kernel = 2 * work.parameters * (_tokens(work) + pairs)
    # Softmax gradients of the head are recomputed once per tile of the vocabulary.
    head_again = 2 * work.vocabulary * work.width * _tokens(work)
    extra = 6 * work.parameters_all * work.tokens_u if work.norm_first else 0
    if algorithm in {"sweep", "resident"}:
        flops = 2 * passes + kernel + head_again + extra
        memory = _activation_bytes(work) if algorithm == "sweep" else _gradient_bytes(work)
        if algorithm == "sweep" and mode == "bounded":
            # The second forward pass covers the blocks: neither the head nor the skipped maps.
            again = work.parameters_all - work.vocabulary * work.width - work.parameters_skipped
            flops += 2 * again * _tokens(work)
            borders = (work.blocks + 4) * work.width + work.block_values
            memory = borders * _tokens(work) * work.item_bytes
    else:
        flops = 6 * work.parameters_all * _tokens(work)
        # The summed gradient and its three directions.
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


def measure_matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of a matrix product of this type on this device, the best of three short runs."""
    size = 2048 if device.type == "cuda" else 384
    left = torch.ones(size, size, dtype=dtype, device=device)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        product = left @ left
        if device.type == "cuda":
            # Reading one number waits for the GPU, which otherwise returns before it has finished.
            product[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / max(best, 1e-9)


def measure_workload(
    parts: ModelParts,
    trained: dict[int, str],
    update: RecordedBatch,
    evaluation: RecordedBatch | None,
    *,
    wants_kernel: bool,
    norm_first: bool,
) -> Workload:
    """The sizes of a computation."""
    model, head = parts.model, parts.head
    counted = [each for each in model.parameters() if id(each) in trained]
    embedding_ids = {
        id(each)
        for module in model.modules()
        if isinstance(module, nn.Embedding) and (head is None or module.weight is not head.weight)
        for each in module.parameters(recurse=False)
    }
    in_forward = sum(each.numel() for each in model.parameters() if id(each) not in embedding_ids)
    return Workload(
        sequences_u=len(update),
        sequences_e=0 if evaluation is None else len(evaluation),
        tokens_u=_batch_tokens(update),
        tokens_e=0 if evaluation is None else _batch_tokens(evaluation),
        parameters=sum(each.numel() for each in counted),
        parameters_all=in_forward,
        layer_values=_values_per_token(model, trained, head),
        block_values=max(
            (_values_per_token(each, trained, head) for each in parts.blocks), default=0
        ),
        width=0 if head is None else head.in_features,
        blocks=len(parts.blocks),
        vocabulary=0 if head is None else head.out_features,
        item_bytes=counted[0].element_size(),
        wants_kernel=wants_kernel,
        norm_first=norm_first,
        splittable=bool(parts.blocks) and head is not None,
    )


def _batch_tokens(batch: RecordedBatch) -> int:
    return sum(each.input_ids.numel() for each in batch.microbatches)


def _values_per_token(module: nn.Module, trained: dict[int, str], head: nn.Module | None) -> int:
    """Values recorded per token in a module; for a weight matrix, input and output gradient."""
    total = 0
    for part in module.modules():
        for each in part.parameters(recurse=False):
            if id(each) in trained and part is not head:
                is_matrix = each.dim() == 2 and not isinstance(part, nn.Embedding)
                total += sum(each.shape) if is_matrix else each.shape[-1]
    return total


def free_memory_bytes(device: torch.device) -> int:
    """Free memory on the model's device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    # macOS does not report free pages; there all memory counts as free.
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
