"""Runtime metrics: learning rate, time and throughput of each step; costly ones every k-th step.

The costly ones are norms, accuracy, zeros in activations, memory and utilisation. k is chosen so
that measuring takes at most 1 % of the time, and is in the facts as `metrics_every`. On a GPU
nothing waits: the values are copied to the host once, asynchronously, and arrive some steps later
with the number of the step in which they were measured.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.session.late_parameters import is_uninitialized
from midstep.session.metrics.activation_zeros import ActivationZeros
from midstep.session.metrics.device_stats import DeviceStats
from midstep.session.metrics.measured_step import DeviceTimer, MeasuredStep, start_transfer
from midstep.session.metrics.metric_interval import MetricInterval
from midstep.session.metrics.tensor_norms import (
    LEAST_NORM,
    change_norm,
    copies,
    count_correct,
    gradients,
    total_norm,
)

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from midstep.control import DebugController

log = logging.getLogger("midstep.session")
BYTES_COPIED = 512 << 20
"""Limit of weights that are copied before a measured step; the update ratio uses these alone."""
LONG_INTERVAL = 64
"""With a longer interval not every step's time is given to the interval, only every 16th."""
CHECK_EVERY = 16


class RuntimeMetrics:
    """Measures the steps of a training loop. All methods are called by the training thread.

    `step_begins` and `step_ended` are for every step. `outputs`, `before_step` and `after_step` do
    nothing unless `measuring`, and `arrived` returns nothing unless there is something
    `in_transfer`: a loop tests these flags to save the call.

    An error inside a measurement switches measuring off, is logged once, and training continues.

    Args:
        model: only read; its activation functions have hooks in measured steps alone.
        optimizer: only read; norms are those of its parameters.
        controller: its breakpoints may need the gradient norm of every step.
        share: of the training time that measuring may take.
        every: measure every so many steps instead.
        clock: monotonic seconds.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> metrics = RuntimeMetrics(model, optimizer)
    >>> metrics.step_begins()
    >>> model(torch.ones(4, 2)).sum().backward()
    >>> metrics.before_step(); optimizer.step(); metrics.after_step()
    >>> _ = metrics.step_ended(step=1, samples=4)
    >>> [(step, scalars["grad_norm"] > 0) for step, scalars in metrics.arrived()]
    [(1, True)]
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        controller: DebugController | None = None,
        *,
        share: float = 0.01,
        every: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._optimizer, self._controller, self._clock = optimizer, controller, clock
        self._zeros = ActivationZeros(model)
        self._device = _device_of(self._parameters())
        self._stats = DeviceStats(self._device)
        self._interval = MetricInterval(share=share, every=every)
        self.in_transfer: deque[MeasuredStep] = deque()
        """Measured steps whose values `arrived` has not returned yet."""
        self._last: MeasuredStep | None = None  # set until the step after it has ended
        self._unpaid: deque[MeasuredStep] = deque()  # their cost is not known yet
        # Steps until one is measured, and the count at which a step's time is used next. One
        # comparison of the two decides in every step whether there is more to do.
        self._steps_left = self._check_at = 0
        self._began_at: float | None = None
        self.is_untimed = False
        """Whether the step in progress is not timed; then `step_ended` returns nothing."""
        self.measuring = self._has_failed = False
        """Whether the step in progress is measured."""
        self._norm: Any = None
        self._has_closure = False
        self._clear()
        self.wants_norm = False
        """Whether `before_step` must be called in every step, for a breakpoint."""
        self._unsubscribe: Callable[[], None] = lambda: None
        if controller is not None:
            # A plain flag, set on a change: the breakpoints are not asked in every step.
            self._unsubscribe = controller.sinks.subscribe(self._read_breakpoints)
            self._read_breakpoints()

    def _read_breakpoints(self) -> None:
        """Called by any thread when something in the controller has changed."""
        if self._controller is not None:
            armed = (each for each in self._controller.list_breakpoints() if each.enabled)
            self.wants_norm = any("grad_norm" in each.condition.scalar_names for each in armed)

    def _clear(self) -> None:
        """Drop what was collected for one measured step."""
        self.measuring = False
        self._timer = DeviceTimer(self._device, clock=self._clock)
        self._timer_at_begin_s = 0.0
        self._tensors: list[torch.Tensor] = []
        self._weights_before: list[torch.Tensor] = []
        self._values: dict[str, torch.Tensor] = {}
        self._correct: list[torch.Tensor] = []
        self._judged = 0

    @property
    def every(self) -> int:
        """The present k: every k-th step is measured."""
        return self._interval.every

    # -- called by the loop -----------------------------------------------------------------------

    def step_begins(self) -> None:
        """Begin a step: take the time, and prepare the measurement if it is due."""
        self._steps_left -= 1
        if self._steps_left <= 0:
            if not self._has_failed:
                self._guarded(self._begin_measurement)
        elif self._steps_left % self._interval.timed_every and self._last is None:
            # Steps are so short that taking the time of each would cost too much.
            self.is_untimed = True
            return
        self.is_untimed = False
        self._began_at = self._clock()  # last, so that the preparation is not in the step's time

    def outputs(self, logits: Any, labels: Any) -> None:
        """Give the inputs of the loss; accuracy is measured if they are logits and classes."""
        if self.measuring and _is_classification(logits, labels):
            self._guarded(self._add_accuracy, logits, labels)

    def before_step(self, gradient_norm: Any = None, *, has_closure: bool = False) -> None:
        """Measure the gradients, before the optimizer steps.

        Args:
            gradient_norm: the norm before clipping, if the loop knows it. Without it the norm is
                that of the gradients which the optimizer gets.
            has_closure: the optimizer computes its gradients by a closure, so those of this step
                exist only after it.
        """
        self._has_closure = has_closure
        if has_closure:
            self._norm = None
            if self.measuring:
                self._guarded(self._copy_weights)
            return
        if gradient_norm is None and self.wants_norm:
            gradient_norm = self._guarded(self._gradient_norm)
        self._norm = gradient_norm
        if gradient_norm is not None:
            self.is_untimed = False  # `step_ended` has a norm to return
        if self.measuring:
            self._guarded(self._measure_gradients, gradient_norm)

    def after_step(self) -> None:
        """Measure the weights, after the optimizer has stepped."""
        if self._has_closure:
            self._has_closure = False
            if self.wants_norm:
                self._norm = self._guarded(self._gradient_norm)
                self.is_untimed = False
            if self.measuring:
                self._guarded(self._note_gradient_norm, self._norm)
        if self.measuring:
            self._guarded(self._measure_weights)

    def step_ended(self, *, step: int, samples: int) -> dict[str, Any]:
        """End a step; returns what is known at once. The rest comes from `arrived`.

        Args:
            step: finished optimizer steps.
            samples: number of samples in the step; 0 if unknown.
        """
        if self.is_untimed:
            return {}
        took_s = None
        if self._began_at is not None:
            took_s, self._began_at = self._clock() - self._began_at, None
            if self._steps_left <= self._check_at and not self._has_failed:
                without_measuring_s = self._guarded(self._use_time, step, took_s)
                took_s = took_s if without_measuring_s is None else without_measuring_s
        rate = self._optimizer.param_groups[0].get("lr")
        if took_s and samples and type(rate) is float and self._norm is None:  # nearly always
            return {"step_time_s": took_s, "throughput": samples / took_s, "lr": rate}
        return self._known(took_s, samples, rate)

    def arrived(self) -> Sequence[tuple[int, dict[str, float]]]:
        """Measured steps whose values have arrived, as (step, scalars); each is returned once."""
        return self._guarded(self._take_arrived) or ()

    def rate(self) -> float | None:
        """The learning rate of the first group; None if it is on a GPU, to avoid a wait."""
        rate: Any = self._optimizer.param_groups[0].get("lr")
        if type(rate) is float:
            return rate
        if rate is None or (hasattr(rate, "device") and rate.device.type != "cpu"):
            return None
        return float(rate)

    def close(self) -> None:
        """Remove all hooks from the model."""
        self._unsubscribe()
        self._guarded(self._abandon)

    # -- parts ------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception:
            # An error of ours must not end the training of the user.
            self._has_failed, self.measuring = True, False
            self.in_transfer.clear()
            log.exception("measuring the step failed and is off; training continues")
            return None

    def _abandon(self) -> None:
        self._zeros.end()
        self._clear()

    def _begin_measurement(self) -> None:
        if self.measuring:
            self._abandon()  # the step before never ended, as after an error in the loop
        self._pay()
        self._clear()
        self.measuring, self._last, self._steps_left, self._check_at = True, None, 0, 0
        with self._timer:
            self._zeros.begin()
        self._timer_at_begin_s = self._timer.host_s

    def _add_accuracy(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        with self._timer:
            self._correct.append(count_correct(logits.detach(), labels))
            self._judged += len(labels)

    def _gradient_norm(self) -> torch.Tensor:
        norm = total_norm(gradients(self._parameters()))
        # A fused optimizer gets scaled gradients from GradScaler and unscales them itself.
        scale = getattr(self._optimizer, "grad_scale", None)
        return norm if scale is None else norm / scale

    def _measure_gradients(self, gradient_norm: Any) -> None:
        with self._timer:
            self._note_gradient_norm(gradient_norm)
            self._copy_weights()

    def _note_gradient_norm(self, gradient_norm: Any) -> None:
        norm = self._gradient_norm() if gradient_norm is None else gradient_norm
        self._values["grad_norm"] = torch.as_tensor(norm).detach()

    def _copy_weights(self) -> None:
        self._tensors = self._parameters()
        self._weights_before = copies(self._tensors, BYTES_COPIED)

    def _measure_weights(self) -> None:
        with self._timer:
            weights, before = self._tensors or self._parameters(), self._weights_before
            self._values["weight_norm"] = copied_norm = total_norm(weights)
            if before:
                if len(before) < len(weights):  # the ratio is about the copied weights alone
                    copied_norm = total_norm(weights[: len(before)])
                change = change_norm(before, weights)
                self._values["update_ratio"] = change / copied_norm.clamp_min(LEAST_NORM)
            self._tensors, self._weights_before = [], []

    def _take_arrived(self) -> Sequence[tuple[int, dict[str, float]]]:
        arrived = []
        while self.in_transfer and self.in_transfer[0].is_ready():
            measured = self.in_transfer.popleft()
            self._unpaid.append(measured)
            arrived.append((measured.step, {**measured.scalars(), "metrics_every": self.every}))
        return arrived

    def _known(self, took_s: float | None, samples: int, rate: Any) -> dict[str, Any]:
        """The result of `step_ended` if something is missing, or a norm was requested."""
        known: dict[str, Any] = {}
        if took_s is not None:
            known["step_time_s"] = took_s
            if samples and took_s > 0:
                known["throughput"] = samples / took_s
        if isinstance(rate, int | float):
            known["lr"] = float(rate)
        if self._norm is not None:
            known["grad_norm"], self._norm = self._norm, None
        return known

    def _use_time(self, step: int, took_s: float) -> float:
        """Use the time of a step for the interval; returns the time without measuring."""
        if self.measuring:
            return self._end_measurement(step, took_s)
        self._interval.add_step(took_s)
        if self._last is not None:
            self._last.next_s, self._last = took_s, None
        self._pay()
        # The interval may have become shorter since the count began.
        self._steps_left = min(self._steps_left, self.every)
        self._check_at = self._steps_left - (CHECK_EVERY if self.every > LONG_INTERVAL else 1)
        return took_s

    def _pay(self) -> None:
        """Give the costs of measured steps to the interval, as far as they are known."""
        # The cost of the last one is known when the step after it has ended: copies of the weights
        # empty the caches, so that step is slower too.
        while self._unpaid and self._unpaid[0] is not self._last:
            self._interval.add_cost(self._unpaid.popleft().cost_s(self._interval.usual_s))

    def _end_measurement(self, step: int, took_s: float) -> float:
        """Start the transfer of the values; returns the step's time without measuring."""
        timer = self._timer
        inside_s = timer.host_s - self._timer_at_begin_s
        with timer:
            self._zeros.end()
            names, values, arrival = self._start_transfer()
            known = dict(self._stats.read())
        usual_s, around_s = self._interval.usual_s, timer.host_s - inside_s
        self._last = MeasuredStep(
            step=step,
            names=names,
            values=values,
            arrival=arrival,
            known=known,
            timer=timer,
            # What no timer sees: hooked modules are called more slowly.
            longer_s=0.0 if usual_s is None else around_s + took_s - usual_s,
        )
        self.in_transfer.append(self._last)
        self._clear()
        self._steps_left = self.every
        self._check_at = self._steps_left - 1
        return max(0.0, took_s - inside_s)

    def _start_transfer(self) -> tuple[tuple[str, ...], torch.Tensor, Any]:
        """Names and values of all that was measured, and the event of their arrival."""
        values = self._values
        zeros = self._zeros.fraction()
        if zeros is not None:
            values["activation_zero_fraction"] = zeros
        if self._correct:
            values["accuracy"] = torch.stack(self._correct).sum() / self._judged
        rate = self._optimizer.param_groups[0].get("lr")
        if isinstance(rate, torch.Tensor):
            values["lr"] = rate.detach()
        return tuple(values), *start_transfer(list(values.values()), self._device)

    def _parameters(self) -> list[torch.Tensor]:
        # Read again each time: groups can be added to an optimizer at any time.
        groups = self._optimizer.param_groups
        every = (each for group in groups for each in group["params"])
        return [each for each in every if not is_uninitialized(each) and each.is_floating_point()]


def used_rate(optimizer: Optimizer) -> Any:
    """The learning rate of the first group, read just before a step that uses it.

    A tensor is read at once, because a scheduler changes it in place. On a device it is cloned, so
    that nothing waits.
    """
    rate: Any = optimizer.param_groups[0].get("lr")
    if type(rate) is float:  # nearly always
        return rate
    if isinstance(rate, torch.Tensor):
        return float(rate) if rate.device.type == "cpu" else rate.detach().clone()
    return float(rate) if isinstance(rate, int | float) else None


def _device_of(parameters: Sequence[torch.Tensor]) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")


def _is_classification(logits: Any, labels: Any) -> bool:
    """Whether these are logits, [B, C], and classes, [B]."""
    return (
        isinstance(logits, torch.Tensor)
        and isinstance(labels, torch.Tensor)
        and logits.is_floating_point()
        and logits.dim() == 2
        and logits.shape[1] > 1
        and labels.shape == logits.shape[:1]
        and labels.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    )
