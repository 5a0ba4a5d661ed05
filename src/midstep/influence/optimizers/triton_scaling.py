"""Multiply U's gradients by D in one pass: weighted sum, D and product in one Triton kernel.

The compiled functions read the gradients twice and write them once. Here a program keeps its
columns of all sequences in registers in between. It needs a GPU and Triton, which PyTorch brings
there; elsewhere the compiled functions of `kernels.tile_contraction` are used.

Shapes: U sequences, P values of a tile, R rows and C columns of it.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

VALUES, WARPS = 2**14, 4
"""Values that one program holds in registers, and its number of warps (32 threads each)."""
MIN_COLUMNS = 16
"""Narrower columns read memory slowly, so batches with more sequences are scaled in two passes."""
_log = logging.getLogger("midstep.influence")
_failures: list[Exception] = []
tl: Any = None
"""Triton's language module. A kernel looks up its names in the globals of its module."""


@dataclass(frozen=True, kw_only=True)
class AdamTile:
    """What D of a tile is computed from, besides G: D = scale / (sqrt(v'/corrected) + ε)."""

    second_RC: Tensor  # noqa: N815 - name ends in its shape
    """The stored second moments v of the tile."""
    beta2: float
    clip_factor: float
    corrected: float  # 1−β₂ᵗ
    eps: float
    scale: float


def can_scale(grads_UP: Tensor) -> bool:
    """Whether the Triton kernel can be used for these gradients."""
    return (
        grads_UP.is_cuda
        and grads_UP.dtype in {torch.bfloat16, torch.float32}
        and grads_UP.is_contiguous()
        and _columns(len(grads_UP)) >= MIN_COLUMNS
        and not _failures
        and _kernel() is not None
    )


def adam_scaled(
    grads_UP: Tensor, weights_U: Tensor, adam: AdamTile, out_UP: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Write every row times D to `out_UP`, and return Σ_j w_j g_j and D, [P] each in float32.

    Returns None, with one warning, where Triton cannot compile the kernel.
    """
    kernel = _kernel()
    if kernel is None:
        raise RuntimeError("adam_scaled was called although can_scale is False")
    count, values = grads_UP.shape
    sum_P = torch.empty(values, dtype=torch.float32, device=grads_UP.device)
    diagonal_P = torch.empty_like(sum_P)
    columns = _columns(count)
    try:
        kernel[((values + columns - 1) // columns,)](
            grads_UP, weights_U, adam.second_RC.reshape(-1), out_UP, sum_P, diagonal_P, values,
            adam.beta2, adam.clip_factor, 1.0 / adam.corrected, adam.eps, adam.scale,
            count=count, rows=_rows(count), columns=columns, num_warps=WARPS,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - Triton raises many types; two passes work too
        _log.warning("gradients are scaled in two passes: %s", error)
        _failures.append(error)
        return None
    return sum_P, diagonal_P


def _rows(count: int) -> int:
    """The power of two that is not below `count`; Triton's ranges have no other sizes."""
    return 1 << (count - 1).bit_length()


def _columns(count: int) -> int:
    return min(128, VALUES // _rows(count))


@functools.cache
def _kernel() -> Any:
    """The kernel, which Triton compiles at its first call; None when Triton is not installed."""
    global tl  # noqa: PLW0603 - see its docstring
    if importlib.util.find_spec("triton") is None:
        _log.info("without triton the gradients are scaled in two passes")
        return None
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from triton import language  # type: ignore[import-not-found,import-untyped,unused-ignore]

    tl = language
    return triton.jit(_scale_columns)


def _scale_columns(  # type: ignore[no-untyped-def]
    grads, weights, second, out, sums, diagonal, values,
    beta2, clip_factor, uncorrected, eps, scale,
    count: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """One program: writes weighted sum, D and product for some columns of all sequences."""
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    row = tl.arange(0, rows)
    inside = column < values
    mask = (row < count)[:, None] & inside[None, :]
    # 64 bits: rows × columns of a tile can exceed 2³¹.
    offset = row.to(tl.int64)[:, None] * values + column[None, :]
    part = tl.load(grads + offset, mask=mask, other=0.0)
    weight = tl.load(weights + row, mask=row < count, other=0.0).to(tl.float32)
    total = tl.sum(part.to(tl.float32) * weight[:, None], axis=0)
    clipped = total * clip_factor
    after = beta2 * tl.load(second + column, mask=inside, other=1.0)
    after += (1 - beta2) * clipped * clipped
    factor = scale / (tl.sqrt(after * uncorrected) + eps)
    tl.store(sums + column, total, mask=inside)
    tl.store(diagonal + column, factor, mask=inside)
    scaled = part.to(tl.float32) * factor[None, :]
    tl.store(out + offset, scaled.to(out.dtype.element_ty), mask=mask)
