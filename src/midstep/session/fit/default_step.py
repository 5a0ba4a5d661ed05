"""The step that a session makes when nobody has written one: from a batch to its loss."""

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
    """What a forward pass gave."""

    loss: torch.Tensor
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars that the user's step gave beside it."""
    outputs: Any = None
    """What the model gave, where the default step knows."""
    labels: Any = None


def default_forward(
    model: nn.Module, loss_fn: Callable[..., Any] | None, batch: Any, step: UserStep | None
) -> ForwardResult:
    """The loss of a batch: by the user's step, else by what the batch looks like."""
    if step is not None:
        return _given(step(model, batch))
    inputs, labels = _split(batch)
    if loss_fn is None:
        raise ConfigError(
            "the session has no loss_fn; give one, or write the step with @session.training_step"
        )
    outputs = model(inputs)
    return ForwardResult(
        loss=_checked(loss_fn(outputs, labels), "loss_fn"), outputs=outputs, labels=labels
    )


def _given(result: Any) -> ForwardResult:
    if not isinstance(result, Mapping):
        return ForwardResult(loss=_checked(result, "the training step"))
    if "loss" not in result:
        raise ConfigError(
            f"the training step gave a mapping with {', '.join(map(str, result)) or 'nothing'}; "
            "it needs a key 'loss'"
        )
    metrics = {name: value for name, value in result.items() if name != "loss"}
    return ForwardResult(loss=_checked(result["loss"], "the training step"), metrics=metrics)


def _checked(loss: Any, giver: str) -> torch.Tensor:
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss if loss.dim() == 0 else loss.reshape(())
    what = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
    raise ConfigError(f"{giver} gave {what}; it must give one number to differentiate, a tensor")


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
        f"what to do with a batch of {_words(batch)} cannot be guessed; a pair (x, y), a mapping "
        f"with one of {', '.join(INPUT_KEYS)} and one of {', '.join(LABEL_KEYS)}, or a tensor that "
        "is its own target can. Write the step yourself: @session.training_step above "
        "def step(model, batch): return loss"
    )


def _words(batch: Any) -> str:
    if isinstance(batch, Mapping):
        return f"a mapping with the keys {', '.join(map(str, batch)) or 'of nothing'}"
    if isinstance(batch, list | tuple):
        return f"{len(batch)} parts ({', '.join(type(each).__name__ for each in batch)})"
    return f"type {type(batch).__name__}"


def move(batch: Any, device: torch.device) -> Any:
    """The batch on a device, containers rebuilt; itself where it has nothing to move.

    >>> batch = {"x": torch.ones(2), "name": "a"}
    >>> move(batch, torch.device("cpu")) is batch
    True
    """
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        moved = {key: move(value, device) for key, value in batch.items()}
        return batch if all(moved[key] is batch[key] for key in batch) else moved
    if isinstance(batch, list | tuple):
        items = [move(item, device) for item in batch]
        if all(new is old for new, old in zip(items, batch, strict=True)):
            return batch
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch.to(device) if hasattr(batch, "to") else batch


def is_classes(outputs: Any, labels: Any) -> bool:
    """Whether accuracy has a meaning: logits, [B, C], and classes, [B]."""
    return (
        isinstance(outputs, torch.Tensor)
        and isinstance(labels, torch.Tensor)
        and outputs.is_floating_point()
        and outputs.dim() == 2
        and outputs.shape[1] > 1
        and labels.shape == outputs.shape[:1]
        and labels.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    )
