"""One optimizer step: forward, backward, clipping, scaling; a non-finite loss skips the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR, ReduceLROnPlateau

from midstep.core.errors import ConfigError
from midstep.session.config import SessionConfig
from midstep.session.fit.default_step import ForwardResult, default_forward, move
from midstep.session.metrics.runtime_metrics import used_rate

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts


class StepObserver(Protocol):
    """Measures a step from inside. The training thread makes every call."""

    def step_begins(self) -> None:
        """Before the forward pass of the first micro-batch."""

    def outputs(self, logits: Any, labels: Any) -> None:
        """What the loss of a micro-batch was computed from, if the default step did it."""

    def before_step(self, gradient_norm: Any = None) -> None:
        """The gradients are complete and unscaled; with their norm before clipping, if known."""

    def after_step(self) -> None:
        """The optimizer has changed the weights."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The result of a step."""

    loss: float
    skipped: bool
    lr: Any = None
    """The learning rate that it used."""
    metrics: Mapping[str, Any] = field(default_factory=dict)


class OptimizerStep:
    """Makes optimizer steps; has everything that stays the same from step to step.

    Args:
        parts: what is trained; the model is moved to the configured device.
        config: accumulation, clipping, autocast and scheduler.
    """

    def __init__(self, parts: TrainingParts, config: SessionConfig) -> None:
        if isinstance(parts.optimizer, torch.optim.LBFGS):
            raise ConfigError(
                "LBFGS calls the model several times in a step, which Session does not support; "
                "write the loop yourself and use midstep.attach"
            )
        self.parts, self.config, self.optimizer = parts, config, parts.optimizer
        self.observer: StepObserver | None = None
        self.on_loss: Callable[[Any, Any, Any], None] | None = None
        """Gets output, target and loss of each micro-batch, if the default step computes it."""
        if config.device is not None:
            parts.model.to(config.device)
        self.device = _device_of(parts.model, config)
        self.dtype = _amp_dtype(config, self.device)
        self.scaler = parts.scaler
        if self.scaler is None and self.dtype is torch.float16:
            self.scaler = torch.amp.GradScaler(self.device.type)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

    def autocast(self) -> AbstractContextManager[Any]:
        """The context around each forward pass."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def forward(self, batch: Any) -> ForwardResult:
        """The loss of a batch in training."""
        parts = self.parts
        return default_forward(parts.model, parts.loss_fn, batch, parts.training_step)

    def evaluation(self, batch: Any) -> ForwardResult:
        """The loss of a batch in validation: by the validation step, else by the training step."""
        parts = self.parts
        step = parts.validation_step or parts.training_step
        return default_forward(parts.model, parts.loss_fn, batch, step)

    def begin(self, *, quiet: bool) -> MicroBatches:
        """Begin a step."""
        self.optimizer.zero_grad()
        observer = None if quiet else self.observer
        if observer is not None:
            observer.step_begins()
        return MicroBatches(self, observer, None if quiet else self.on_loss)

    def apply(self, observer: StepObserver | None) -> tuple[bool, Any]:
        """Change the weights; returns whether they changed, and the norm if it was clipped."""
        optimizer, scaler, norm = self.optimizer, self.scaler, None
        if scaler is not None:
            scaler.unscale_(optimizer)  # norms and clipping are of the true gradients
        if self.config.grad_clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip_norm)
        if observer is not None:
            observer.before_step(norm)
        moved = True
        if scaler is None:
            optimizer.step()
        else:
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            # The scaler does not say whether it skipped the step. It lowers its scale if it did.
            moved = scaler.get_scale() >= before
        if observer is not None:
            observer.after_step()
        if moved and self.interval == "step":
            self.parts.scheduler.step()
        return moved, norm

    @property
    def interval(self) -> str | None:
        """When the scheduler steps: `step`, `epoch`, `val_loss`, or None without one."""
        scheduler = self.parts.scheduler
        if scheduler is None:
            return None
        if isinstance(scheduler, ReduceLROnPlateau):
            return "val_loss"
        if self.config.scheduler_interval is not None:
            return self.config.scheduler_interval
        return "step" if isinstance(scheduler, OneCycleLR | CyclicLR) else "epoch"

    def epoch_ended(self, val_loss: float | None) -> None:
        """Step a scheduler that steps once per epoch."""
        if self.interval == "epoch":
            self.parts.scheduler.step()
        elif self.interval == "val_loss" and val_loss is not None:
            self.parts.scheduler.step(val_loss)


class MicroBatches:
    """The micro-batches of one optimizer step."""

    def __init__(
        self,
        step: OptimizerStep,
        observer: StepObserver | None,
        on_loss: Callable[[Any, Any, Any], None] | None,
    ) -> None:
        self._step, self._observer, self._on_loss = step, observer, on_loss
        self._batch: Any = None
        self._losses: list[float] = []
        self._metrics: dict[str, list[Any]] = {}
        self._finite = True
        self.count = 0

    def add(self, batch: Any) -> None:
        """Forward and backward of a micro-batch; after a non-finite loss it is only counted."""
        self.count += 1
        if not self._finite:
            return
        step, self._batch = self._step, batch
        with step.autocast():
            result = step.forward(move(batch, step.device))
        if self._on_loss is not None and result.outputs is not None:
            self._on_loss(result.outputs, result.labels, result.loss)
        # Waits for the device: one step with a non-finite loss would ruin the weights for good.
        value = float(result.loss.detach())
        self._losses.append(value)
        for name, each in result.metrics.items():
            self._metrics.setdefault(name, []).append(each)
        if self._observer is not None and result.outputs is not None:
            self._observer.outputs(result.outputs, result.labels)
        self._finite = math.isfinite(value)
        if self._finite:
            self._backward(result.loss)

    def position(self) -> tuple[int, Any]:
        """Number and batch of the micro-batch in progress."""
        return self.count, self._batch

    def _backward(self, loss: torch.Tensor) -> None:
        steps, scaler = self._step.config.accumulate_steps, self._step.scaler
        part = loss if steps == 1 else loss / steps
        torch.autograd.backward(part if scaler is None else scaler.scale(part))

    def close(self) -> StepResult:
        """Make the optimizer step, or skip it if a loss was not finite."""
        loss = sum(self._losses) / len(self._losses)
        metrics = {name: _mean(values) for name, values in self._metrics.items()}
        lr = used_rate(self._step.optimizer)
        if not self._finite:
            self._step.optimizer.zero_grad()
            return StepResult(loss=self._losses[-1], skipped=True, lr=lr, metrics=metrics)
        self._rescale_partial()
        moved, norm = self._step.apply(self._observer)
        if norm is not None:
            metrics["grad_norm"] = norm.detach()
        return StepResult(loss=loss, skipped=not moved, lr=lr, metrics=metrics)

    def _rescale_partial(self) -> None:
        """Make the gradient a mean in the last step of an epoch, which has fewer micro-batches."""
        steps = self._step.config.accumulate_steps
        gradients = [p.grad for p in self._step.parameters if p.grad is not None]
        # Each loss was divided by `accumulate_steps`, so the sum is too small by this factor.
        if self.count < steps and gradients:
            with torch.no_grad():
                torch._foreach_mul_(gradients, steps / self.count)


def _mean(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else sum(map(float, values)) / len(values)


def _device_of(model: torch.nn.Module, config: SessionConfig) -> torch.device:
    first = next(iter(model.parameters()), None)
    return torch.device(config.device or "cpu") if first is None else first.device


def _amp_dtype(config: SessionConfig, device: torch.device) -> torch.dtype | None:
    if not config.amp:
        return None
    if config.amp is True:
        return torch.float16 if device.type == "cuda" else torch.bfloat16
    return torch.float16 if config.amp == "fp16" else torch.bfloat16
