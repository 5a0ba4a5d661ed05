"""What attached loops and sessions measure inside their steps: runtime metrics, under a guard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from midstep.session.runtime_metrics import RuntimeMetrics
from midstep.session.step_norms import gradients, total_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController

__all__ = ["StepWatch"]

log = logging.getLogger("midstep.session")


class StepWatch(RuntimeMetrics):
    """The observer of a loop's steps.

    A fault of ours in here switches the measuring off, says so once, and training goes on. What
    is done in every step is inherited as it is: it is too little to fail.

    Args:
        model: only read.
        optimizer: only read.
        controller: its breakpoints may want the gradient norm of every step.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, controller: DebugController) -> None:
        super().__init__(model, optimizer)
        self._controller, self._broken = controller, False
        self.wants_norm = False
        """Whether `before_step` is to be called in each step."""
        self._unsubscribe = controller.subscribe(self._look_at_breakpoints)
        self._look_at_breakpoints()

    def _look_at_breakpoints(self) -> None:
        """Called when anything changed: one that reads the norm needs it of every step."""
        armed = (each for each in self._controller.list_breakpoints() if each.enabled)
        self.wants_norm = any("grad_norm" in each.condition.names for each in armed)

    def _begin(self) -> None:
        if not self._broken:
            self._guarded(super()._begin)

    def outputs(self, logits: Any, labels: Any) -> None:
        """What the loss was taken of."""
        if self.measuring:
            self._guarded(super().outputs, logits, labels)

    def before_step(self, gradient_norm: Any = None) -> None:
        """The gradients are there."""
        if gradient_norm is None and self.wants_norm:
            groups = self._optimizer.param_groups
            weights = [weight for group in groups for weight in group["params"]]
            gradient_norm = total_norm(gradients(weights))
        self._norm = gradient_norm
        if gradient_norm is not None:
            self.rests = False  # there is something to tell
        if self.measuring:
            self._guarded(super().before_step, gradient_norm)

    def after_step(self) -> None:
        """The weights have moved."""
        if self.measuring:
            self._guarded(super().after_step)

    def _look(self, step: int, took_s: float) -> float:
        found = None if self._broken else self._guarded(super()._look, step, took_s)
        return took_s if found is None else float(found)

    def arrived(self) -> Sequence[tuple[int, dict[str, float]]]:
        """Measured steps whose values are here by now."""
        return self._guarded(super().arrived) or ()

    def rate(self) -> float | None:
        """The learning rate of the first group; None for one that lives on a device."""
        rate: Any = self._optimizer.param_groups[0].get("lr")
        if type(rate) is float:
            return rate
        if rate is None or (hasattr(rate, "device") and rate.device.type != "cpu"):
            return None
        return float(rate)

    def close(self) -> None:
        """Leave the model as it was found."""
        self._unsubscribe()
        self._guarded(super().close)

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception:
            # A fault of ours must not end somebody's training; what it costs is said in the log.
            self._broken, self.measuring = True, False
            self.on_way.clear()
            log.exception("measuring the step failed and is off; training goes on")
            return None
