"""Tensors whose rows a step can move: which they are, and clones of them within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorClones:
    """What was copied, and why the rest was not; both by name."""

    clones: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)


def clone_within_budget(
    sources: Mapping[str, Callable[[], Any]],
    names: Iterable[str],
    budget_bytes: int,
    reusable: Mapping[str, Any] | None = None,
) -> TensorClones:
    """Clone the tensors of these names, first come first served, as far as the budget goes.

    Args:
        sources: how each is read.
        names: which of them.
        budget_bytes: how much to clone at most.
        reusable: old clones by name, written over where they fit.
    """
    result = TensorClones()
    for name in names:
        try:
            tensor = sources[name]()
            refusal = why_no_rows(tensor) or _why_too_large(tensor, budget_bytes)
            if refusal is None:
                result.clones[name] = _copy(tensor.detach(), (reusable or {}).get(name))
                budget_bytes -= int(tensor.nbytes)
        except Exception as error:  # noqa: BLE001 - somebody's callable, or no memory: go on
            refusal = f"cannot be copied: {type(error).__name__}: {str(error)[:200]}"
        if refusal is not None:
            result.refusals[name] = f"{name} {refusal}"
    return result


def _copy(tensor: Any, reusable: Any) -> Any:
    return (
        reusable.copy_(tensor)
        if reusable is not None and _fits(reusable, tensor)
        else tensor.clone()
    )


def _fits(reusable: Any, tensor: Any) -> bool:
    """Whether the memory of a clone can take `tensor` as it lies."""
    return bool(
        reusable.shape == tensor.shape
        and reusable.dtype == tensor.dtype
        and reusable.device == tensor.device
        and reusable.stride() == tensor.stride()
    )


def has_rows(read: Callable[[], Any]) -> bool:
    """Whether `read` gives a tensor with rows; what cannot be read has none."""
    try:
        return why_no_rows(read()) is None
    except Exception:  # noqa: BLE001 - somebody's callable: what cannot be read is not offered
        return False


def why_no_rows(tensor: Any) -> str | None:
    """Why a tensor has no rows that a step could move; None when it has.

    >>> import torch
    >>> why_no_rows(torch.ones(3))
    'is 1-dimensional; rows with a direction need two dimensions or more'
    """
    if not hasattr(tensor, "detach") or not tensor.is_floating_point():
        return "holds no real numbers that a step could change"
    if tensor.dim() < 2:
        return f"is {tensor.dim()}-dimensional; rows with a direction need two dimensions or more"
    return None


def _why_too_large(tensor: Any, budget_bytes: int) -> str | None:
    if int(tensor.nbytes) <= budget_bytes:
        return None
    limit = f"{budget_bytes / 2**20:.0f} MiB"
    return (
        f"has {tensor.numel():,} elements ({tensor.nbytes / 2**20:.0f} MiB), too many to be copied "
        f"beside the others in this step (limit {limit}). Choose a smaller one; a step made by "
        "hand may copy more than one of a run that goes on."
    )
