"""Numbers about activations, attention and weights: pure functions of tensors.

Shapes: B samples, N rows (samples times positions), U units, H heads, T queries, S keys, R rows of
a weight, I their length.
"""

# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from midstep.session.late_parameters import is_uninitialized

MAX_ROWS = 1024
"""Limit of rows whose cosines are computed; more rows are thinned evenly, not at random."""
FLAT = 0.01
"""Outputs within this share of the range from its ends are saturated."""
_RANGES: dict[type[nn.Module], tuple[float, float]] = {
    nn.Sigmoid: (0.0, 1.0),
    nn.Hardsigmoid: (0.0, 1.0),
    nn.Tanh: (-1.0, 1.0),
    nn.Softsign: (-1.0, 1.0),
}


def first_tensor(output: Any) -> torch.Tensor | None:
    """The output of a module, or the first of several, if it is a dense floating-point tensor."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    is_usable = isinstance(first, torch.Tensor) and first.is_floating_point()
    return first.detach() if is_usable and first.numel() > 0 and not first.is_sparse else None


def moments(output: torch.Tensor) -> torch.Tensor:
    """Mean, mean of squares, share of zeros, minimum, maximum: [5], on the output's device."""
    # The mean of squares, not the variance: it can be averaged over several passes.
    values = output.float()
    low, high = values.aminmax()
    zeros = (values == 0).float().mean()
    return torch.stack([values.mean(), values.square().mean(), zeros, low, high])


def saturated_share(module: nn.Module, output: torch.Tensor) -> torch.Tensor | None:
    """Share of elements close to the limits of a bounded activation; None for other modules."""
    ends = _RANGES.get(type(module))
    if type(module) is nn.Hardtanh:
        ends = (module.min_val, module.max_val)
    if ends is None:
        return None
    margin = FLAT * (ends[1] - ends[0])
    flat = (output <= ends[0] + margin) | (output >= ends[1] - margin)
    return flat.float().mean()


def rows_by_unit(output: torch.Tensor) -> torch.Tensor:
    """The output as [N, U]: units are channels of images [B, U, …], else the last dimension."""
    if output.dim() >= 4:
        output = output.movedim(1, -1)
    return output.reshape(-1, output.shape[-1]) if output.dim() else output.reshape(1, 1)


def alive_units(output: torch.Tensor) -> torch.Tensor:
    """Whether each unit is not zero in at least one row, [U]."""
    return (rows_by_unit(output) != 0).any(dim=0)


def attention_entropy(weights_BHTS: torch.Tensor) -> torch.Tensor:
    """Per head: mean entropy over samples and queries in nats, and mean of the largest weight.

    Returns:
        [H, 2]. The entropy of S equal weights is log S, that of a single weight 0.
    """
    weights = weights_BHTS.float()
    entropy_BHT = torch.special.entr(weights).sum(dim=-1)
    return torch.stack([entropy_BHT.mean(dim=(0, 2)), weights.amax(dim=-1).mean(dim=(0, 2))], dim=1)


def row_cosines(weight: torch.Tensor) -> torch.Tensor:
    """Mean and largest cosine between two different rows: [2]; NaN with fewer than two."""
    rows_RI = weight.reshape(weight.shape[0], -1).float()
    rows_RI = rows_RI[:: -(-len(rows_RI) // MAX_ROWS)]
    count = len(rows_RI)
    if count < 2:
        return torch.full((2,), torch.nan, device=weight.device)
    unit_RI = torch.nn.functional.normalize(rows_RI, dim=1)
    cosines_RR = unit_RI @ unit_RI.T
    trace = cosines_RR.diagonal().sum()
    mean = (cosines_RR.sum() - trace) / (count * (count - 1))
    cosines_RR.fill_diagonal_(-torch.inf)
    return torch.stack([mean, cosines_RR.max()])


_PASS_THROUGH = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Flatten)


def can_be_hooked(model: nn.Module) -> bool:
    """False for a compiled or scripted model: a hook would make it compile again."""
    return not (hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule))


def leaf_modules(model: nn.Module, layers: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules without children that change their input, with their names.

    Args:
        model: the model to search.
        layers: only modules whose name contains this.
    """
    if not can_be_hooked(model):
        return
    for name, module in model.named_modules():
        is_leaf = next(module.children(), None) is None
        if is_leaf and layers in name and not isinstance(module, _PASS_THROUGH):
            yield name or type(module).__name__, module


def weights_of(model: nn.Module, layers: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters with two or more dimensions, with their names."""
    for name, value in model.named_parameters():
        if is_uninitialized(value):
            continue
        if value.dim() >= 2 and value.is_floating_point() and layers in name:
            yield name, value.detach()
