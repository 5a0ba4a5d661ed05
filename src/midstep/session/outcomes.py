"""What goes into a training, and what its steps and epochs come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.session.guessing import UserStep
from midstep.session.own_parts import OwnParts

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["EpochOutcome", "StepOutcome", "TrainingParts"]


@dataclass(kw_only=True)
class TrainingParts:
    """What the user gave a session to train."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss_fn: Callable[..., Any] | None
    train_loader: Any
    val_loader: Any = None
    test_loader: Any = None
    scheduler: Any = None
    scaler: Any = None
    training_step: UserStep | None = None
    validation_step: UserStep | None = None
    also: OwnParts = field(default_factory=lambda: OwnParts(None))
    """The user's own state that moves with the training."""
    after_step: list[Callable[[nn.Module], object]] = field(default_factory=list)
    """Called after each step that changed the weights, repeated ones included."""


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """One finished optimizer step."""

    step: int
    """Finished optimizer steps, this one counted."""
    epoch: int
    sample_ids: Sequence[Any]
    """In batch order; those of micro-batches one after the other."""
    loss: float
    """Mean over the micro-batches."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars of the user's step, and `grad_norm` where it was clipped."""
    skipped: bool = False
    """Whether the weights were left alone, as the loss or a scaled gradient was not finite."""
    batches: Sequence[Any] = ()
    """References to the micro-batches, as they came from the loader."""


@dataclass(frozen=True, kw_only=True)
class EpochOutcome:
    """One finished epoch."""

    epoch: int
    step: int
    train_loss: float | None
    """Mean over its steps that were not skipped; None without any."""
    validation: Mapping[str, float] | None
    """`loss`, `accuracy` and others; None where none was due."""
    is_best: bool
    """Whether no validation loss before was lower."""
    skipped: int
    """Steps of it that were skipped."""
