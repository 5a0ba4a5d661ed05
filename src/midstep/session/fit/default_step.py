"""The default training step: from a batch to its loss, if the user wrote no step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.session.state.training_parts import UserStep

INPUT_KEYS = ("x", "input", "inputs", "image", "images", "features", "input_ids", "tokens")
LABEL_KEYS = ("y", "label", "labels", "target", "targets")


@dataclass(frozen=True, kw_only=True)
class ForwardResult:
    """The result of a forward pass."""

    loss: torch.Tensor
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Further scalars of the user's step."""
    outputs: Any = None
    """Output of the model; None if the user's step computed the loss."""
    labels: Any = None


def default_forward(
    model: nn.Module, loss_fn: Callable[..., Any] | None, batch: Any, step: UserStep | None
) -> ForwardResult:
    """The loss of a batch: by the user's step, else by the structure of the batch."""
    if step is not None:
        return _from_user_step(step(model, batch))
    inputs, labels = _split(batch)
    if loss_fn is None:
        raise ConfigError(
            "the session has no loss_fn; pass one, or write the step with @session.training_step"
        )
    outputs = model(inputs)
    return ForwardResult(
        loss=_checked(loss_fn(outputs, labels), "loss_fn"), outputs=outputs, labels=labels
    )


def _from_user_step(result: Any) -> ForwardResult:
    if not isinstance(result, Mapping):
        return ForwardResult(loss=_checked(result, "the training step"))
    if "loss" not in result:
        raise ConfigError(
            "the training step must return a mapping with a key 'loss', got one with "
            f"{', '.join(map(str, result)) or 'no keys'}"
        )
    metrics = {name: value for name, value in result.items() if name != "loss"}
    return ForwardResult(loss=_checked(result["loss"], "the training step"), metrics=metrics)


def _checked(loss: Any, function: str) -> torch.Tensor:
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss if loss.dim() == 0 else loss.reshape(())
    what = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
    raise ConfigError(f"{function} returned {what}; it must return a tensor with one element")


def _split(batch: Any) -> tuple[Any, Any]:
    """Input and label of a batch: a pair, a mapping with known names, or an input alone."""
    if isinstance(batch, torch.Tensor):
        return batch, batch
    if isinstance(batch, Mapping):
        inputs = [key for key in INPUT_KEYS if key in batch]
        labels = [key for key in LABEL_KEYS if key in batch]
        if len(inputs) == 1 and len(labels) == 1:
            return batch[inputs[0]], batch[labels[0]]
    elif isinstance(batch, list | tuple):
        if len(batch) == 1 and isinstance(batch[0], torch.Tensor):
            return batch[0], batch[0]
        if len(batch) == 2:
            return batch[0], batch[1]
    raise ConfigError(
        f"the default step does not know what to do with a batch of {_describe(batch)}. It takes a "
        f"pair (x, y), a mapping with one of {', '.join(INPUT_KEYS)} and one of "
        f"{', '.join(LABEL_KEYS)}, or a tensor that is its own target. Write the step yourself: "
        "@session.training_step above def step(model, batch): return loss"
    )


def _describe(batch: Any) -> str:
    if isinstance(batch, Mapping):
        return f"a mapping with the keys {', '.join(map(str, batch)) or '(none)'}"
    if isinstance(batch, list | tuple):
        return f"{len(batch)} parts ({', '.join(type(each).__name__ for each in batch)})"
    return f"type {type(batch).__name__}"


def move(batch: Any, device: torch.device) -> Any:
    """The batch on a device, with its containers rebuilt; the same object if nothing moves.

    >>> batch = {"x": torch.ones(2), "name": "a"}
    >>> move(batch, torch.device("cpu")) is batch
    True
    """
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)  # asynchronous only from pinned memory
    if isinstance(batch, Mapping):
        moved = {key: move(value, device) for key, value in batch.items()}
        return batch if all(moved[key] is batch[key] for key in batch) else moved
    if isinstance(batch, list | tuple):
        items = [move(item, device) for item in batch]
        if all(new is old for new, old in zip(items, batch, strict=True)):
            return batch
        # A namedtuple takes its fields as arguments, other sequences an iterable.
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch.to(device) if hasattr(batch, "to") else batch


def is_classes(outputs: Any, labels: Any) -> bool:
    """Whether accuracy can be computed: logits [B, C] and integer classes [B]."""
    return (
        isinstance(outputs, torch.Tensor)
        and isinstance(labels, torch.Tensor)
        and outputs.is_floating_point()
        and outputs.dim() == 2
        and outputs.shape[1] > 1
        and labels.shape == outputs.shape[:1]
        and labels.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    )
