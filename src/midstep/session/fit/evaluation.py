"""Validation and test: a pass over another loader that does not affect the training."""

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


class EvaluationStopped(ControlError):  # noqa: N818 - like StopTraining, it ends a loop
    """A stop was requested in the middle of a validation; nothing has changed."""


def evaluate(
    model: nn.Module,
    loader: Any,
    forward: Callable[[Any], ForwardResult],
    *,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
    interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """Means over all samples of a loader: `loss`, `accuracy` for classes, further scalars.

    Generators and modes of modules are restored afterwards, and no gradient is kept.

    Args:
        model: in evaluation mode during the pass.
        loader: gives the batches.
        forward: computes the loss of a batch.
        device: where batches are moved.
        autocast: a context around each forward pass.
        interrupted: called between batches; True raises `EvaluationStopped`.
    """
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    # The generators of this loader, too: each validation then sees the same order, and how often a
    # run validates does not change its training.
    generators = find_generators(
        getattr(loader, "generator", None), getattr(loader, "sampler", None)
    )
    with preserve_rng(generators), evaluating(model), torch.no_grad():
        for batch in loader:
            if interrupted():
                raise EvaluationStopped("stopped in a validation; a resume repeats it")
            moved = move(batch, device)
            with autocast():
                result = forward(moved)
            samples = count_samples(moved) or 1  # weights: the last batch may be smaller
            for name, value in _scalars(result).items():
                sums[name] = sums.get(name, 0.0) + value * samples
                counts[name] = counts.get(name, 0) + samples
    if not sums:
        raise ConfigError("the loader of a validation or test gave no batch; is its dataset empty?")
    return {name: sums[name] / counts[name] for name in sums}


def _scalars(result: ForwardResult) -> dict[str, float]:
    scalars = {"loss": float(result.loss)}
    if is_classes(result.outputs, result.labels):
        hits = result.outputs.argmax(dim=1) == result.labels
        scalars["accuracy"] = float(hits.double().mean())
    numbers = {name: float(value) for name, value in result.metrics.items()}
    return scalars | {name: each for name, each in numbers.items() if not math.isnan(each)}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode, then restore the mode of each module: some may be frozen in `eval`."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
