"""Clones of tensors with rows within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def clone_within_budget(
    sources: Mapping[str, Callable[[], Any]],
    names: Iterable[str],
    budget_bytes: int,
    reusable: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Clone the named tensors in this order, as long as the budget lasts.

    Args:
        sources: functions that return the tensors, by name.
        names: which tensors to clone.
        budget_bytes: how many bytes to clone at most.
        reusable: old clones by name, which are written over where they fit.

    Returns:
        The clones by name; and, for each other name, why it was not cloned.
    """
    clones: dict[str, Any] = {}
    refusals: dict[str, str] = {}
    for name in names:
        try:
            tensor = sources[name]()
            refusal = why_no_rows(tensor) or _why_too_large(tensor, budget_bytes)
            if refusal is None:
                source: Any = tensor.detach()
                old: Any = (reusable or {}).get(name)
                clones[name] = old.copy_(source) if _fits(old, source) else source.clone()
                budget_bytes -= int(tensor.nbytes)
        except Exception as error:  # noqa: BLE001 - a function of the user, or out of memory
            refusal = f"cannot be copied: {type(error).__name__}: {str(error)[:200]}"
        if refusal is not None:
            refusals[name] = f"{name} {refusal}"
    return clones, refusals


def _fits(reusable: Any, tensor: Any) -> bool:
    """Whether the memory of a clone can hold `tensor` in the same layout."""
    # Strides too: a copy into another layout would be slower, and readers see the tensor's own.
    return bool(
        reusable is not None
        and reusable.shape == tensor.shape
        and reusable.dtype == tensor.dtype
        and reusable.device == tensor.device
        and reusable.stride() == tensor.stride()
    )


def has_rows(read: Callable[[], Any]) -> bool:
    """Whether `read` returns a tensor with rows; False if it raises."""
    try:
        return why_no_rows(read()) is None
    except Exception:  # noqa: BLE001 - a function of the user: what cannot be read is not offered
        return False


def why_no_rows(tensor: Any) -> str | None:
    """Why a tensor has no rows that a step could change; None if it has.

    >>> import torch
    >>> why_no_rows(torch.ones(3))
    'is 1-dimensional; rows with a direction need two dimensions or more'
    """
    if not hasattr(tensor, "detach") or not tensor.is_floating_point():
        return "holds no floating-point numbers that a step could change"
    if tensor.dim() < 2:
        return f"is {tensor.dim()}-dimensional; rows with a direction need two dimensions or more"
    return None


def _why_too_large(tensor: Any, budget_bytes: int) -> str | None:
    if int(tensor.nbytes) <= budget_bytes:
        return None
    limit = f"{budget_bytes / 2**20:.0f} MiB"
    return (
        f"has {tensor.numel():,} elements ({tensor.nbytes / 2**20:.0f} MiB), more than can be "
        f"cloned in this step (limit {limit}). Choose a smaller tensor, or pause and make one "
        "step: a single step may clone more than a running one."
    )
