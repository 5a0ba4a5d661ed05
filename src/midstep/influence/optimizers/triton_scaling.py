"""U's gradients times D in one pass over them: the sum of the batch, D and the product together.

The plain way reads the gradients twice and writes them once; here a program holds its columns of
all sequences in registers in between. Needs a GPU and Triton, which comes with PyTorch there;
elsewhere the plain way is used.

Shapes: U sequences, P values of a tile.
"""

# ruff: noqa: N803, N806 - names end in their shape
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
"""Of one program: how many values it holds, and by how many groups of 32 threads."""
MIN_COLUMNS = 16
"""Narrower pieces of a row are slow to read: more sequences than fit take the plain way."""
_log = logging.getLogger("midstep.influence")
_failures: list[Exception] = []
tl: Any = None
"""The kernel's language: a kernel finds its names among the globals of its module."""


@dataclass(frozen=True, kw_only=True)
class AdamTile:
    """What D of a tile is made of, beside the gradient: D = scale / (sqrt(v'/corrected) + ε)."""

    second_P: Tensor  # noqa: N815 - name ends in its shape
    """The stored second moments, float32."""
    beta2: float
    clip_factor: float
    corrected: float
    eps: float
    scale: float


def can_scale(grads_UP: Tensor) -> bool:
    """Whether the one-pass kernel can be used on these gradients."""
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
    """Write every row times D to `out_UP`; gives Σ_j w_j g_j and D, [P] in float32.

    None, said once, where the kernel cannot be compiled: then the plain way is right as well.
    """
    kernel = _kernel()
    if kernel is None:
        raise RuntimeError("adam_scaled was called where can_scale says no")
    count, values = grads_UP.shape
    sum_P = torch.empty(values, dtype=torch.float32, device=grads_UP.device)
    diagonal_P = torch.empty_like(sum_P)
    columns = _columns(count)
    try:
        kernel[((values + columns - 1) // columns,)](
            grads_UP, weights_U, adam.second_P, out_UP, sum_P, diagonal_P, values,
            adam.beta2, adam.clip_factor, 1.0 / adam.corrected, adam.eps, adam.scale,
            count=count, rows=_rows(count), columns=columns, num_warps=WARPS,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways
        _log.warning("gradients are scaled in two passes: %s", error)
        _failures.append(error)
        return None
    return sum_P, diagonal_P


def _rows(count: int) -> int:
    """The power of two that holds all sequences."""
    return 1 << (count - 1).bit_length()


def _columns(count: int) -> int:
    return min(128, VALUES // _rows(count))


@functools.cache
def _kernel() -> Any:
    """The compiled kernel; None where Triton is missing."""
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
    """Some columns of all sequences: their weighted sum, D, and themselves times D."""
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    row = tl.arange(0, rows)
    inside = column < values
    mask = (row < count)[:, None] & inside[None, :]
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
