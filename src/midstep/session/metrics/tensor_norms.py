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
    total: torch.Tensor = torch.linalg.vector_norm(stacked(_norm_of_each(tensors)))
    return total


def _norm_of_each(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The norm of each tensor, [], in float64 if one of them has it, else in float32."""
    is_wide = any(each.dtype == torch.float64 for each in tensors)
    # In half precision a sum of squares would overflow at 65,504.
    widest = torch.float64 if is_wide else torch.float32
    return torch._foreach_norm(list(tensors), 2, dtype=widest)


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
    """Norms of each parameter: made after backward, read once after the optimizer step.

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
        held = [
            (name, value)
            for name, value in named
            if not is_uninitialized(value) and value.is_floating_point()
        ]
        self.names = [name for name, _ in held]
        self._weights = [value.detach() for _, value in held]
        # The first ones that fit, in one operation for all.
        self._before = copies(self._weights, BYTES_KEPT) if updates else []
        # Now, not in `measure`: an optimizer may change the gradients.
        gradients = [None if value.grad is None else _dense(value.grad) for _, value in held]
        self._device = self._weights[0].device if held else torch.device("cpu")
        self._gradients = _norms(gradients, self._device, missing=0.0)

    @torch.no_grad()
    def measure(self) -> torch.Tensor:
        """The norms of weights, gradients and updates, [3, P], on the device; does not wait.

        Called once. The gradient norm is 0 without a gradient, the update norm NaN if unknown.
        """
        changes, self._before = self._before, []
        if changes:
            torch._foreach_sub_(changes, self._weights[: len(changes)])
        unknown = [None] * (len(self._weights) - len(changes))
        weights = _norms(self._weights, self._device)
        return torch.stack([weights, self._gradients, _norms([*changes, *unknown], self._device)])

    def table(self) -> dict[str, object]:
        """The columns of `norm_columns`; waits for the device."""
        return norm_columns(self.names, self.measure())


def norm_columns(names: list[str], norms: torch.Tensor) -> dict[str, object]:
    """Columns: name, weight_norm, grad_norm, update_norm, update_ratio; NaN where unknown.

    Args:
        names: of the parameters.
        norms: as `ParameterNorms.measure` returns them, on any device.
    """
    weight, gradient, update = norms.cpu().unbind()
    return {
        "name": names,
        "weight_norm": weight,
        "grad_norm": gradient,
        "update_norm": update,
        "update_ratio": update / weight.clamp_min(LEAST_NORM),
    }


def _norms(
    tensors: Sequence[torch.Tensor | None], device: torch.device, *, missing: float = torch.nan
) -> torch.Tensor:
    """The norm of each, [P], on `device`. Does not wait for a GPU. `missing` for None."""
    known = [tensor for tensor in tensors if tensor is not None]
    if not known:
        return torch.full((len(tensors),), missing, device=device)
    norms = stacked(_norm_of_each(known)).float().to(device, non_blocking=True)
    if len(known) == len(tensors):
        return norms
    # Made on the device: a number or an index from the host would be a copy that waits.
    unknown = torch.full((), missing, device=device)
    by_tensor = iter(norms.unbind())
    return torch.stack([unknown if each is None else next(by_tensor) for each in tensors])
