"""The share of activations that are exactly zero, seen by hooks that are there only while asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from midstep.session.metrics.tensor_norms import stacked

__all__ = ["ActivationZeros", "count_zeros", "watched_modules"]

_NO_ACTIVATION = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin)
"""They stand among torch's activations, but nothing is switched off in them."""


def count_zeros(output: torch.Tensor) -> torch.Tensor:
    """How many elements are zero, as a tensor that is not waited for."""
    return output.numel() - torch.count_nonzero(output.detach())


def watched_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The activation functions of a model by name.

    A compiled or scripted model is left alone: a hook would make it compile anew.
    """
    if hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule):
        return {}
    home = nn.ReLU.__module__
    return {
        name: module
        for name, module in model.named_modules()
        if type(module).__module__ == home and not isinstance(module, _NO_ACTIVATION)
    }


class ActivationZeros:
    """Counts zeros in the outputs of a model's activation functions, during training alone.

    Nothing is drawn, kept or changed; outside `watching` the model has no hooks of ours. What is
    called as a function (`torch.relu`) cannot be seen.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> zeros = ActivationZeros(model)
    >>> with zeros.watching():
    ...     _ = model(torch.zeros(1, 2))
    >>> 0.0 <= float(zeros.fraction()) <= 1.0
    True
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = watched_modules(model)
        self._counts: dict[str, list[torch.Tensor]] = {}
        self._elements: dict[str, int] = {}
        self._handles: list[Any] = []

    @property
    def names(self) -> list[str]:
        """The modules that are watched."""
        return list(self._modules)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hooks for the time of a block."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Forget what was counted, and watch until `end`."""
        self.end()
        self._counts, self._elements = {}, {}
        self._handles = [
            module.register_forward_hook(self._hook(name)) for name, module in self._modules.items()
        ]

    def end(self) -> None:
        """Take the hooks off; ending twice is fine."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _hook(self, name: str) -> Any:
        def count(module: nn.Module, _arguments: Any, output: Any) -> None:
            if module.training and torch.is_grad_enabled() and _countable(output):
                self._counts.setdefault(name, []).append(count_zeros(output))
                self._elements[name] = self._elements.get(name, 0) + output.numel()

        return count

    def fractions(self) -> dict[str, torch.Tensor]:
        """The share of zeros of each module that ran, as tensors that are not waited for."""
        return {
            name: torch.stack(counts).sum() / self._elements[name]
            for name, counts in self._counts.items()
        }

    def fraction(self) -> torch.Tensor | None:
        """The share over all of them; None if none of them ran."""
        counts = [each for found in self._counts.values() for each in found]
        if not counts:
            return None
        return stacked(counts).sum() / sum(self._elements.values())


def _countable(output: Any) -> bool:
    return (
        isinstance(output, torch.Tensor)
        and output.layout is torch.strided
        and output.is_floating_point()
        and output.numel() > 0
    )
