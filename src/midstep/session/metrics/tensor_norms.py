"""Norms of all parameters: multi-tensor operations, reduced on the device of the tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from midstep.session.late_parameters import is_uninitialized


@torch.no_grad()
def total_norm(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The Euclidean norm over all elements of all tensors, [], in float32 or float64.

    It is on the device of the first tensor, and the call does not wait for it.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    if not tensors:
        return torch.zeros(())
    is_wide = any(each.dtype == torch.float64 for each in tensors)
    # In half precision a sum of squares would overflow at 65,504.
    widest = torch.float64 if is_wide else torch.float32
    norms = torch._foreach_norm(list(tensors), 2, dtype=widest)
    total: torch.Tensor = torch.linalg.vector_norm(stacked(norms))
    return total


def stacked(scalars: Sequence[torch.Tensor]) -> torch.Tensor:
    """Scalars, [], as one tensor, [N], on the device of the first."""
    try:
        return torch.stack(list(scalars))
    except RuntimeError:  # they are on several devices
        device = scalars[0].device
        return torch.stack([each.to(device, non_blocking=True) for each in scalars])


def gradients(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of those parameters that have one; of sparse ones the stored values."""
    return [_dense(each.grad) for each in parameters if each.grad is not None]


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    # Coalesced first: entries for the same index are summed, else the norm would be wrong.
    return gradient.coalesce().values() if gradient.is_sparse else gradient


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
    # One multi-tensor kernel instead of one clone for each parameter.
    return list(torch._foreach_mul(chosen, 1.0)) if chosen else []


@torch.no_grad()
def change_norm(before: list[torch.Tensor], after: Sequence[torch.Tensor]) -> torch.Tensor:
    """The norm of the difference, []. `before` is overwritten, and may be shorter than `after`."""
    if before:
        torch._foreach_sub_(before, [each.detach() for each in after[: len(before)]])
    return total_norm(before)


@torch.no_grad()
def count_correct(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How many rows of `logits`, [B, C], are largest at their label, [B].

    NaN if a label is not a class: then these are not logits, and a number would be wrong.
    """
    is_class = ((labels >= 0) & (labels < logits.shape[1])).all()
    hits = (logits.argmax(dim=1) == labels).sum().float()
    return torch.where(is_class, hits, torch.full_like(hits, torch.nan))


BYTES_KEPT = 512 * 2**20
"""Limit of weights that are cloned before the step; the others get no update norm."""
LEAST_NORM = 1e-12
"""Lower bound of a norm in a denominator."""


class ParameterNorms:
    """Norms of each parameter: made after backward, read as a table after the optimizer step.

    Args:
        named: parameters by name, as `model.named_parameters()` returns them. They are only read.
        updates: whether to measure the change by the step, which needs a clone of the weights.

    >>> model = torch.nn.Linear(2, 1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> norms = ParameterNorms(model.named_parameters())
    >>> torch.optim.SGD(model.parameters(), lr=0.1).step()
    >>> norms.table()["name"]
    ['weight', 'bias']
    """

    @torch.no_grad()
    def __init__(
        self, named: Iterable[tuple[str, torch.nn.Parameter]], *, updates: bool = True
    ) -> None:
        self._named = [
            (name, value)
            for name, value in named
            if not is_uninitialized(value) and value.is_floating_point()
        ]
        kept_bytes = 0
        self._before: dict[str, torch.Tensor] = {}
        for name, value in self._named:
            kept_bytes += value.nbytes
            if updates and kept_bytes <= BYTES_KEPT:
                self._before[name] = value.detach().clone()
        # Now, not in the table: an optimizer may change the gradients.
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
    """The gradient; of a sparse one the stored values; a zero if there is none."""
    return torch.zeros(1, device=value.device) if value.grad is None else _dense(value.grad)


def _norms(tensors: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """The norm of each, [P], on the device of the first. Does not wait. NaN for None."""
    known = [tensor for tensor in tensors if tensor is not None]
    if not known:
        return torch.full((len(tensors),), torch.nan)
    widest = torch.float64 if any(t.dtype == torch.float64 for t in known) else torch.float32
    norms = iter(torch._foreach_norm(known, 2, dtype=widest))
    device = known[0].device
    unknown = torch.full((), torch.nan, device=device)
    return torch.stack(
        [unknown if t is None else next(norms).to(device, torch.float32) for t in tensors]
    )
