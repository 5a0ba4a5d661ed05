"""What the output of a step says of each sample: a class, several, tokens, a map, or values.

Only the shown samples are read, and of maps only the shown rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from midstep.explore.known_losses import Kind, known_loss, wide
from midstep.explore.tensor_trees import tensors_in

PredictionKind = Literal["class", "classes", "tokens", "map", "value"]
MOST_TOKENS = 64
"""Predicted tokens of a sequence that are shown."""
MOST_LABELS = 64
MOST_VALUES = 1 << 20
"""Values of all shown samples together; beyond this no prediction is shown."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predictions of some samples; see `ShownSamples` for the shapes."""

    kind: PredictionKind
    values: Tensor
    probabilities: Tensor | None = None
    """Of the predicted classes, [n]."""

    def of(self, first: int, stop: int) -> Prediction:
        """Those of some of its samples."""
        probabilities = None if self.probabilities is None else self.probabilities[first:stop]
        values = self.values[first:stop]
        return Prediction(kind=self.kind, values=values, probabilities=probabilities)


def predict(
    loss_fn: Any,
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    *,
    samples: int,
    first: int,
    stop: int,
    stride: int = 1,
) -> Prediction | None:
    """The predictions of samples `first` up to `stop`; None if the output has none.

    Args:
        loss_fn: tells what the output means, if it is a loss of torch.
        inputs: what the loss was called with: output and target.
        named: further arguments of it.
        samples: in the batch; a flattened output has several rows for each.
        first: the first sample.
        stop: the sample after the last one.
        stride: a map has one of so many rows and columns.

    >>> logits = torch.tensor([[0.0, 9.0], [9.0, 0.0]])
    >>> shown = predict(None, (logits, torch.tensor([1, 1])), {}, samples=2, first=0, stop=2)
    >>> shown.kind, shown.values.tolist()
    ('class', [1, 0])
    """
    loss = known_loss(loss_fn, inputs, named)
    if loss is not None:
        output, target, kind = loss.output, loss.target, loss.kind
    else:
        tensors = list(tensors_in((inputs, named)))
        if len(tensors) < 2 or not tensors[0].is_floating_point() or not tensors[0].dim():
            return None
        output, target = tensors[0], tensors[1]
        kind = _likely_kind(output, target)
    if not len(output) or len(output) % samples:
        return None
    rows = len(output) // samples
    is_flat = rows > 1
    chosen = wide(output[first * rows : stop * rows].detach())
    if kind == "classes":
        return _classes(chosen, target, stop - first, stride, is_flat=is_flat)
    if kind in ("binary", "probabilities"):
        return _binary(chosen, stop - first, stride, limit=0.0 if kind == "binary" else 0.5)
    values = chosen.reshape(stop - first, *((-1,) if is_flat else output.shape[1:]))
    if values.dim() == 4:
        values = values[..., ::stride, ::stride]
    return _bounded(
        Prediction(kind="value", values=values[:, 0] if values.shape[1:] == (1,) else values)
    )


def _likely_kind(output: Tensor, target: Tensor) -> Kind:
    """What the output of an unknown loss is, by its shape and that of the target."""
    names_classes = not target.is_floating_point() and target.dtype is not torch.bool
    is_index = target.dim() == output.dim() - 1 and target.shape[:1] == output.shape[:1]
    has_two = output.dim() > 1 and output.shape[1] > 1
    return "classes" if names_classes and is_index and has_two else "values"


def _classes(
    output: Tensor, target: Tensor, count: int, stride: int, *, is_flat: bool
) -> Prediction | None:
    """Of scores [n, C, …], or [n · G, C] of sequences."""
    if output.dim() < 2:
        return None
    if is_flat:  # the rows of a sequence
        scores = output.reshape(count, -1, *output.shape[1:])[:, :MOST_TOKENS]
        return Prediction(kind="tokens", values=scores.argmax(2).reshape(count, -1))
    if output.dim() == 2:
        top = output.softmax(1).max(1)
        return Prediction(kind="class", values=top.indices, probabilities=top.values)
    if output.dim() == 3:
        # [n, C, T] as torch wants it, or [n, T, C] of a loss that turns it.
        is_last = target.dim() >= 2 and target.shape[1] == output.shape[1] != output.shape[2]
        scores = output[:, :MOST_TOKENS] if is_last else output[:, :, :MOST_TOKENS]
        return Prediction(kind="tokens", values=scores.argmax(2 if is_last else 1))
    maps = output[..., ::stride, ::stride].argmax(1)
    return _bounded(Prediction(kind="map", values=maps))


def _binary(output: Tensor, count: int, stride: int, *, limit: float) -> Prediction | None:
    """Of scores of two classes: one for each sample, several labels, or a map [n, 1, H, W]."""
    if output.dim() >= 3:
        maps = output[..., ::stride, ::stride] > limit
        values = maps[:, 0] if maps.dim() == 4 and maps.shape[1] == 1 else maps
        return _bounded(Prediction(kind="map", values=values.to(torch.uint8)))
    scores = output.reshape(count, -1)
    values = (scores > limit).to(torch.int64)
    if scores.shape[1] > 1:
        return Prediction(kind="classes", values=values[:, :MOST_LABELS])
    positive = scores.sigmoid() if limit == 0 else scores
    probabilities = torch.where(values > 0, positive, 1 - positive)
    return Prediction(kind="class", values=values[:, 0], probabilities=probabilities[:, 0])


def _bounded(prediction: Prediction) -> Prediction | None:
    return prediction if prediction.values.numel() <= MOST_VALUES else None
