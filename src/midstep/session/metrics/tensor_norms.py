"""Norms over all parameters at once: multi-tensor operations, reduced where the tensors are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch


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


BYTES_KEPT = 512 * 2**20
"""Weights before the step that are kept for the update; what lies beyond gets no ratio."""
LEAST_NORM = 1e-12


class ParameterNorms:
    """Made when the gradients are there, asked for its table when the step was made.

    Args:
        named: parameters by name, as `model.named_parameters()` gives them. They are only read.
        updates: whether the change by the step is wanted; that needs a clone of the weights.

    >>> model = torch.nn.Linear(2, 1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> layers = ParameterNorms(model.named_parameters())
    >>> torch.optim.SGD(model.parameters(), lr=0.1).step()
    >>> layers.table()["name"]
    ['weight', 'bias']
    """

    @torch.no_grad()
    def __init__(
        self, named: Iterable[tuple[str, torch.nn.Parameter]], *, updates: bool = True
    ) -> None:
        self._named = [(name, value) for name, value in named if value.is_floating_point()]
        kept_bytes = 0
        self._before: dict[str, torch.Tensor] = {}
        for name, value in self._named:
            kept_bytes += value.nbytes
            if updates and kept_bytes <= BYTES_KEPT:
                self._before[name] = value.detach().clone()
        # An optimizer may change the gradients, so their norms cannot wait for the table.
        self._gradients = _norms([_gradient(value) for _, value in self._named])

    @torch.no_grad()
    def table(self) -> dict[str, object]:
        """Columns: name, weight_norm, grad_norm, update_norm, update_ratio; NaN where unknown."""
        weights = _norms([value for _, value in self._named])
        changes = [
            value - self._before[name] if name in self._before else None
            for name, value in self._named
        ]
        columns = torch.stack([weights, self._gradients, _norms(changes).to(weights.device)]).cpu()
        weight, gradient, update = columns.unbind()
        return {
            "name": [name for name, _ in self._named],
            "weight_norm": weight,
            "grad_norm": gradient,
            "update_norm": update,
            "update_ratio": update / weight.clamp_min(LEAST_NORM),
        }


def _gradient(value: torch.Tensor) -> torch.Tensor:
    """The dense gradient; of a sparse one what it holds; a zero where there is none."""
    if value.grad is None:
        return torch.zeros(1, device=value.device)
    return value.grad.coalesce().values() if value.grad.is_sparse else value.grad


def _norms(tensors: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The norm of each, [P], on the first one's device and not waited for; NaN for None."""
    known = [tensor for tensor in tensors if tensor is not None]
    if not known:
        return torch.full((len(tensors),), torch.nan)
    widest = torch.float64 if any(t.dtype == torch.float64 for t in known) else torch.float32
    found = iter(torch._foreach_norm(known, 2, dtype=widest))
    device = known[0].device
    unknown = torch.full((), torch.nan, device=device)
    return torch.stack(
        [unknown if t is None else next(found).to(device, torch.float32) for t in tensors]
    )
