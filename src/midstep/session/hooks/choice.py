"""Which parts of a model a hook looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["can_be_hooked", "leaf_modules", "weights_of"]

_PASS_ON = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Flatten)


def can_be_hooked(model: nn.Module) -> bool:
    """Not so for a compiled or scripted model: a hook would make it compile anew."""
    return not (hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule))


def leaf_modules(model: nn.Module, layers: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules that have none inside and do more than pass on, with their names.

    Args:
        model: what is looked through.
        layers: only names that contain this.
    """
    if not can_be_hooked(model):
        return
    for name, module in model.named_modules():
        is_leaf = next(module.children(), None) is None
        if is_leaf and layers in name and not isinstance(module, _PASS_ON):
            yield name or type(module).__name__, module


def weights_of(model: nn.Module, layers: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters with rows, with their names."""
    for name, value in model.named_parameters():
        if value.dim() >= 2 and value.is_floating_point() and layers in name:
            yield name, value.detach()
