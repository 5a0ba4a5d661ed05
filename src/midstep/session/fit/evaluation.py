"""Validation and test: a pass over another loader that leaves no trace in the training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from midstep.core.errors import ConfigError, ControlError
from midstep.data.batch_structure import count_samples
from midstep.data.random_state import find_generators, preserve_rng
from midstep.session.fit.default_step import ForwardResult, is_classes, move

__all__ = ["EvaluationStopped", "evaluate"]


class EvaluationStopped(ControlError):  # noqa: N818 - like StopTraining, it ends a loop
    """A stop was asked for in the middle of a validation; nothing has changed."""


def evaluate(
    model: nn.Module,
    loader: Any,
    forward: Callable[[Any], ForwardResult],
    *,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
    interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """Means over all samples of a loader: `loss`, `accuracy` where it has one, further scalars.

    Every generator stands as before it, modules have the modes they had, and no gradient is kept.

    Args:
        model: put into evaluation mode meanwhile.
        loader: its batches.
        forward: the loss of a batch.
        device: where batches go.
        autocast: a context around each forward pass.
        interrupted: asked between batches; True raises `EvaluationStopped`.
    """
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    own = find_generators(getattr(loader, "generator", None), getattr(loader, "sampler", None))
    with preserve_rng(own), _evaluating(model), torch.no_grad():
        for batch in loader:
            if interrupted():
                raise EvaluationStopped("stopped in a validation; it is made again at a resume")
            moved = move(batch, device)
            with autocast():
                made = forward(moved)
            samples = count_samples(moved) or 1
            for name, value in _scalars(made).items():
                sums[name] = sums.get(name, 0.0) + value * samples
                counts[name] = counts.get(name, 0) + samples
    if not sums:
        raise ConfigError("the loader of a validation or test gave no batch")
    return {name: sums[name] / counts[name] for name in sums}


def _scalars(made: ForwardResult) -> dict[str, float]:
    found = {"loss": float(made.loss)}
    if is_classes(made.outputs, made.labels):
        hits = made.outputs.argmax(dim=1) == made.labels
        found["accuracy"] = float(hits.double().mean())
    for name, value in made.metrics.items():
        number = float(value)
        if not math.isnan(number):
            found[name] = number
    return found


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode, and back to its own."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
