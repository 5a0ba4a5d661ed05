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
    """Probabilities of the predicted classes, [n]."""

    def rows(self, first: int, stop: int) -> Prediction:
        """The predictions of the samples from `first` up to `stop`."""
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
    rows_first: bool = False,
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
        rows_first: the rows were flattened from [G, B], not from [B, G].

    >>> logits = torch.tensor([[0.0, 9.0], [9.0, 0.0]])
    >>> shown = predict(None, (logits, torch.tensor([1, 1])), {}, samples=2, first=0, stop=2)
    >>> shown.kind, shown.values.tolist()
    ('class', [1, 0])
    """
    loss = known_loss(loss_fn, inputs, named)
    if loss is not None:
        output, target = loss.output, loss.target
        kind: Kind = loss.kind
    else:
        tensors = list(tensors_in((inputs, named)))
        if len(tensors) < 2 or not tensors[0].is_floating_point() or not tensors[0].dim():
            return None
        output = tensors[0]
        target = next((each for each in tensors[1:] if _names_classes(output, each)), tensors[1])
        kind = "classes" if _names_classes(output, target) else "values"
    if not len(output) or len(output) % samples:
        return None
    chosen = _rows_of(output.detach(), samples, rows_first=rows_first)[first:stop]
    if kind == "classes":
        return _classes(chosen, target, stride)
    if kind in ("binary", "probabilities"):
        return _binary(chosen, stride, limit=0.0 if kind == "binary" else 0.5)
    values = chosen[..., ::stride, ::stride] if chosen.dim() == 4 else chosen
    values = values[:, 0] if values.shape[1:] == (1,) else values
    return _bounded(Prediction(kind="value", values=values))


def _rows_of(output: Tensor, samples: int, *, rows_first: bool) -> Tensor:
    """[R, …] as [B, …], or as [B, G, …] if each sample has several rows. A view."""
    rows, *rest = output.shape
    if rows == samples:
        return output
    if rows_first:
        return output.reshape(rows // samples, samples, *rest).transpose(0, 1)
    return output.reshape(samples, rows // samples, *rest)


def _names_classes(output: Tensor, target: Tensor) -> bool:
    """Whether a target of an unknown loss names classes of the output, by its shape."""
    is_whole = not target.is_floating_point() and target.dtype is not torch.bool
    is_index = target.dim() == output.dim() - 1 and target.shape[:1] == output.shape[:1]
    return is_whole and is_index and output.dim() > 1 and output.shape[1] > 1


def _classes(output: Tensor, target: Tensor, stride: int) -> Prediction | None:
    """The prediction of scores [n, C, …], or of [n, G, C] of sequences."""
    if output.dim() == 2:
        top = wide(output).softmax(1).max(1)
        return Prediction(kind="class", values=top.indices, probabilities=top.values)
    if output.dim() == 3:
        # Flattened, or [n, T, C] of a loss that turns it itself; else [n, C, T] as torch wants it.
        is_last = target.dim() == 1 or output.shape[1] == target.shape[1] != output.shape[2]
        scores = output[:, :MOST_TOKENS] if is_last else output[:, :, :MOST_TOKENS]
        return Prediction(kind="tokens", values=scores.argmax(2 if is_last else 1))
    if output.dim() == 4:
        return _bounded(Prediction(kind="map", values=output[..., ::stride, ::stride].argmax(1)))
    return None


def _binary(output: Tensor, stride: int, *, limit: float) -> Prediction | None:
    """The prediction of scores of two classes: one per sample, labels, or a map [n, 1, H, W]."""
    if output.dim() == 4:
        maps = (output[..., ::stride, ::stride] > limit)[:, 0]
        return _bounded(Prediction(kind="map", values=maps.to(torch.uint8)))
    scores = wide(output.reshape(len(output), -1)[:, :MOST_LABELS])
    values = (scores > limit).to(torch.int64)
    if scores.shape[1] > 1:
        return Prediction(kind="classes", values=values)
    positive = scores.sigmoid() if limit == 0 else scores
    probabilities = torch.where(values > 0, positive, 1 - positive)
    return Prediction(kind="class", values=values[:, 0], probabilities=probabilities[:, 0])


def _bounded(prediction: Prediction) -> Prediction | None:
    values = prediction.values
    if values.numel() > MOST_VALUES:
        return None
    # A slice of the output would keep all of it in memory until it is copied.
    return Prediction(kind=prediction.kind, values=wide(values).clone())
