"""Norms over all parameters at once: multi-tensor operations, reduced where the tensors are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["change", "copies", "correct", "gradients", "stacked", "total_norm"]


@torch.no_grad()
def total_norm(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The Euclidean norm over all elements of all tensors, [], in float32 or wider.

    It lies on the first one's device, and nobody waits for it.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    if not tensors:
        return torch.zeros(())
    is_wide = any(each.dtype == torch.float64 for each in tensors)
    # Half precision would overflow at 65,504, which a sum of squares passes soon.
    widest = torch.float64 if is_wide else torch.float32
    norms = torch._foreach_norm(list(tensors), 2, dtype=widest)
    found: torch.Tensor = torch.linalg.vector_norm(stacked(norms))
    return found


def stacked(scalars: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one element, [], as one, [N], on the first one's device."""
    try:
        return torch.stack(list(scalars))
    except RuntimeError:  # they lie on several devices
        device = scalars[0].device
        return torch.stack([each.to(device, non_blocking=True) for each in scalars])


def gradients(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients that are there; of sparse ones what they hold."""
    found = [each.grad for each in parameters if each.grad is not None]
    return [each.coalesce().values() if each.is_sparse else each for each in found]


@torch.no_grad()
def copies(parameters: Sequence[torch.Tensor], most_bytes: int) -> list[torch.Tensor]:
    """Copies of the first parameters, as many as fit into `most_bytes`."""
    kept, taken = 0, 0
    for each in parameters:
        taken += each.nbytes
        if taken > most_bytes:
            break
        kept += 1
    chosen = [each.detach() for each in parameters[:kept]]
    return list(torch._foreach_mul(chosen, 1.0)) if chosen else []


@torch.no_grad()
def change(before: list[torch.Tensor], after: Sequence[torch.Tensor]) -> torch.Tensor:
    """The norm of the difference, []; `before` is used up, and may be of the first ones alone."""
    if before:
        torch._foreach_sub_(before, [each.detach() for each in after[: len(before)]])
    return total_norm(before)


@torch.no_grad()
def correct(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How many rows of `logits`, [B, C], are largest at their label, [B].

    NaN if a label is no class, so that nothing false is told of what only looks like logits.
    """
    is_class = ((labels >= 0) & (labels < logits.shape[1])).all()
    hits = (logits.argmax(dim=1) == labels).sum().float()
    return torch.where(is_class, hits, torch.full_like(hits, torch.nan))
