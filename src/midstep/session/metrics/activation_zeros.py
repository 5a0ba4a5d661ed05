"""The share of activations that are exactly zero, counted by forward hooks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from midstep.session.hidden_hooks import add_hidden_hook
from midstep.session.metrics.tensor_norms import stacked

_NO_ACTIVATION = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin)
"""Modules that torch lists as activations, but whose outputs are not switched off at zero."""


def watched_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The activation functions of a model by name.

    None for a compiled or scripted model: a hook would make it compile again.
    """
    if hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule):
        return {}
    # By module and not by a list of classes, so that new activations of torch are found too.
    home = nn.ReLU.__module__
    return {
        name: module
        for name, module in model.named_modules()
        if type(module).__module__ == home and not isinstance(module, _NO_ACTIVATION)
    }


class ActivationZeros:
    """Counts zeros in the outputs of a model's activation functions, in training only.

    No random number is drawn and nothing is changed. The model has hooks only between `begin` and
    `end`. Functions without a module (`torch.relu`) are not seen.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> zeros = ActivationZeros(model)
    >>> zeros.begin()
    >>> _ = model(torch.zeros(1, 2))
    >>> zeros.end()
    >>> 0.0 <= float(zeros.fraction()) <= 1.0
    True
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = watched_modules(model)
        self._counts: list[torch.Tensor] = []
        self._elements = 0
        self._handles: list[Any] = []

    @property
    def names(self) -> list[str]:
        """The modules that are watched."""
        return list(self._modules)

    def begin(self) -> None:
        """Put hooks on the model and count from zero until `end`."""
        self.end()
        self._counts, self._elements = [], 0
        self._handles = [
            add_hidden_hook(module, "forward", self._count) for module in self._modules.values()
        ]

    def end(self) -> None:
        """Remove the hooks; a second call changes nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _count(self, module: nn.Module, _arguments: Any, _named: Any, output: Any) -> None:
        # A pass in evaluation mode or without gradients is a validation.
        if module.training and torch.is_grad_enabled() and _is_countable(output):
            self._counts.append(output.numel() - torch.count_nonzero(output.detach()))
            self._elements += output.numel()

    def fraction(self) -> torch.Tensor | None:
        """The share of zeros over all modules; None if none of them ran. Does not wait."""
        return stacked(self._counts).sum() / self._elements if self._counts else None


def _is_countable(output: Any) -> bool:
    return (
        isinstance(output, torch.Tensor)
        and output.layout is torch.strided
        and output.is_floating_point()
        and output.numel() > 0
    )
