"""What a session measures inside its steps: its runtime metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from midstep.session.runtime_metrics import RuntimeMetrics
from midstep.session.step_norms import gradients, total_norm

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController

__all__ = ["StepWatch"]

log = logging.getLogger("midstep.session")


class StepWatch:
    """The observer of a session's steps.

    A fault of ours in here switches the measuring off, says so once, and training goes on.

    Args:
        model: only read.
        optimizer: only read.
        controller: asked whether somebody looks, given the table of layers.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, controller: DebugController) -> None:
        self._model, self._optimizer, self._controller = model, optimizer, controller
        self._metrics: RuntimeMetrics | None = RuntimeMetrics(model, optimizer)
        self._norm: Any = None
        self._wants_norm = False
        self._unsubscribe = controller.subscribe(self._look_at_breakpoints)
        self._look_at_breakpoints()

    def _look_at_breakpoints(self) -> None:
        """Called when anything changed: one that reads the norm needs it of every step."""
        armed = (each for each in self._controller.list_breakpoints() if each.enabled)
        self._wants_norm = any("grad_norm" in each.condition.names for each in armed)

    def step_begins(self) -> None:
        """Before the forward pass."""
        self._ask("step_begins")

    def outputs(self, logits: Any, labels: Any) -> None:
        """What the loss was taken of."""
        self._ask("outputs", logits, labels)

    def before_step(self, gradient_norm: Any = None) -> None:
        """The gradients are there."""
        self._norm = gradient_norm
        if self._wants_norm and gradient_norm is None:
            groups = self._optimizer.param_groups
            weights = [weight for group in groups for weight in group["params"]]
            self._norm = total_norm(gradients(weights))
        self._ask("before_step", self._norm)

    def after_step(self) -> None:
        """The weights have moved."""
        self._ask("after_step")

    def step_ended(self, step: int, samples: int) -> dict[str, Any]:
        """What is known of the step that just ended."""
        known = dict(self._ask("step_ended", step=step, samples=samples) or {})
        norm, self._norm = self._norm, None
        return known if norm is None else {**known, "grad_norm": norm}

    def arrived(self) -> list[tuple[int, dict[str, float]]]:
        """Measured steps whose values are here by now."""
        return self._ask("arrived") or []

    def rate(self) -> float | None:
        """The learning rate of the first group; None for one that lives on a device."""
        rate: Any = self._optimizer.param_groups[0].get("lr")
        if rate is None or (hasattr(rate, "device") and rate.device.type != "cpu"):
            return None
        return float(rate)

    def close(self) -> None:
        """Leave the model as it was found."""
        self._unsubscribe()
        self._ask("close")

    def _ask(self, name: str, *arguments: Any, **named: Any) -> Any:
        if self._metrics is None:
            return None
        try:
            return getattr(self._metrics, name)(*arguments, **named)
        except Exception:
            # A fault of ours must not end somebody's training; what it costs is said in the log.
            self._metrics = None
            log.exception("measuring the step failed and is off; training goes on")
            return None
