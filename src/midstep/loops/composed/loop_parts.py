"""`LoopParts`: what a loop builds, and a session trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.data.sources.source_data import SourceData
    from midstep.loops.config.train_config import TrainConfig
    from midstep.session import Session

Batch = Mapping[str, "Tensor"]
LoopStep = Callable[[Any, Any], Any]
"""Called with the model and a batch; returns the loss, or a mapping with `loss` and scalars."""


@dataclass(frozen=True, kw_only=True)
class LoopParts:
    """Model, optimizer and steps of a loop. Data, device and schedule come from the config."""

    model: nn.Module
    """The model to train."""
    optimizer: Optimizer
    """Its optimizer."""
    training_step: LoopStep
    """The loss of a batch, with further scalars for the facts."""
    validation_step: LoopStep
    """The loss of a batch in validation and test, where nothing may be changed."""
    extra_state: Mapping[str, Any] = field(default_factory=dict)
    """Further objects that belong to the training, by name."""
    families: tuple[str, ...] = ("losses", "metrics", "latency")
    """Plot families that the loop supports."""
    total_steps: int | None = None
    """Train so many optimizer steps instead of the epochs of the trainer."""
    session_settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `SessionConfig` that the loop needs to be different."""
    begin: Callable[[Session], object] | None = None
    """Called with the session once it is open, before the first step: to add hooks and sources."""


Build = Callable[["TrainConfig", "SourceData"], LoopParts]
"""Builds the parts of a loop from settings and data. Global generators are seeded before."""
