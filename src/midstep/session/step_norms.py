"""Norms over all parameters at once: multi-tensor operations, reduced where the tensors are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["changes", "copies", "correct", "gradients", "total_norm"]


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
    device = norms[0].device
    together = torch.stack([norm.to(device, non_blocking=True) for norm in norms])
    found: torch.Tensor = torch.linalg.vector_norm(together)
    return found


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
def changes(
    before: list[torch.Tensor], after: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Norms of the difference and of `after`, each []; `before` is used up."""
    now = [each.detach() for each in after[: len(before)]]
    if now:
        torch._foreach_sub_(before, now)
    return total_norm(before), total_norm(now)


@torch.no_grad()
def correct(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How many rows of `logits`, [B, C], are largest at their label, [B].

    NaN if a label is no class, so that nothing false is told of what only looks like logits.
    """
    is_class = ((labels >= 0) & (labels < logits.shape[1])).all()
    hits = (logits.argmax(dim=1) == labels).sum().float()
    return torch.where(is_class, hits, torch.full_like(hits, torch.nan))
