"""Norms of every parameter around one optimizer step: a table for a page.

Norms of all parameters are taken together, and each table is one copy to the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

__all__ = ["Layers"]

BYTES_KEPT = 512 * 2**20
"""Weights before the step that are kept for the update; what lies beyond gets no ratio."""
LEAST_NORM = 1e-12


class Layers:
    """Made when the gradients are there, asked for its table when the step was made.

    Args:
        named: parameters by name, as `model.named_parameters()` gives them. They are only read.
        updates: whether the change by the step is wanted; that needs a clone of the weights.

    >>> model = torch.nn.Linear(2, 1)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> layers = Layers(model.named_parameters())
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
