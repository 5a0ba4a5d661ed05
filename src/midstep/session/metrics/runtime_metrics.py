"""Runtime metrics: rate, times and throughput with each step; the costly ones with every k-th.

Those are norms, accuracy, zeros in activations, memory and utilisation. k is chosen so that
measuring takes at most one hundredth of the time, and stands in the facts as `metrics_every`. On a
GPU nothing waits: what was measured is copied once, asynchronously, and arrives with a later step
under the number of its own.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.session.metrics.activation_zeros import ActivationZeros
from midstep.session.metrics.device_stats import DeviceStats
from midstep.session.metrics.measured_step import DeviceTimer, MeasuredStep, sent
from midstep.session.metrics.metric_interval import MetricInterval
from midstep.session.metrics.tensor_norms import change, copies, correct, gradients, total_norm

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from midstep.control import DebugController


BYTES_COPIED = 512 << 20
"""Weights before a measured step, kept to see their change; what lies beyond is left out."""
LEAST_NORM = 1e-12
SELDOM = 64
"""Where k is larger, the time of a step is looked at now and then instead of each time."""
LOOK_EVERY = 16


class RuntimeMetrics:
    """Measures a training from six places of its loop, all called by the training thread.

    Two of them are for each step. `outputs`, `before_step` and `after_step` do nothing unless
    `measuring`, and `arrived` gives nothing unless `on_way`: a loop may test these instead.

    Args:
        model: for the zeros in its activations; hooks are there only in measured steps.
        optimizer: its parameters are the ones that norms are taken of.
        share: of the time that measuring may take.
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
        *,
        share: float = 0.01,
        every: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._optimizer, self._clock = optimizer, clock
        self._zeros = ActivationZeros(model)
        self._device = _device_of(self._parameters())
        self._stats = DeviceStats(self._device)
        self._pace = MetricInterval(share=share, every=every)
        self.on_way: deque[MeasuredStep] = deque()
        """Measured steps whose values `arrived` has still to give."""
        self._last: MeasuredStep | None = None  # the step after it has not ended yet
        self._unpaid: deque[MeasuredStep] = deque()  # their cost is not known yet
        self._left = self._look_at = 0  # steps until one is measured, and where to look next
        self._began: float | None = None
        self.rests = False
        """Whether the step in progress is not timed: then there is nothing to tell at its end."""
        self._norm: Any = None
        self._forget()

    def _forget(self) -> None:
        self.measuring = False
        """Whether the step in progress is one that is measured."""
        self._spent = DeviceTimer(self._device, clock=self._clock)
        self._before_s = 0.0
        self._tensors: list[torch.Tensor] = []
        self._weights: list[torch.Tensor] = []
        self._found: dict[str, torch.Tensor] = {}
        self._hits: list[torch.Tensor] = []
        self._judged = 0

    @property
    def every(self) -> int:
        """Every how many steps are measured, as it stands."""
        return self._pace.every

    # -- the loop ---------------------------------------------------------------------------------

    def step_begins(self) -> None:
        """A step begins: its time counts from here, if it is one that is timed."""
        self._left -= 1
        if self._left <= 0:
            self._begin()
        elif self._left % self._pace.timed_every and self._last is None:
            self.rests = True
            return
        self.rests = False
        self._began = self._clock()

    def _begin(self) -> None:
        """A step that is measured."""
        if self.measuring:
            self.close()  # the step before never ended
        self._settle()
        self._forget()
        self.measuring, self._last, self._left, self._look_at = True, None, 0, 0
        with self._spent:
            self._zeros.begin()
        self._before_s = self._spent.host_s

    def outputs(self, logits: Any, labels: Any) -> None:
        """What the loss was taken of; accuracy is told where these are logits and classes."""
        if self.measuring and _classifies(logits, labels):
            with self._spent:
                self._hits.append(correct(logits.detach(), labels))
                self._judged += len(labels)

    def before_step(self, gradient_norm: Any = None) -> None:
        """The gradients are there. `gradient_norm` is the one before clipping, where it is known.

        Without it the norm is that of the gradients as they stand.
        """
        self._norm = gradient_norm
        if gradient_norm is not None:
            self.rests = False  # there is something to tell
        if not self.measuring:
            return
        with self._spent:
            self._tensors = self._parameters()
            if gradient_norm is None:
                gradient_norm = total_norm(gradients(self._tensors))
                scale = getattr(self._optimizer, "grad_scale", None)
                if scale is not None:  # a fused optimizer takes the scale off by itself
                    gradient_norm = gradient_norm / scale
            self._found["grad_norm"] = torch.as_tensor(gradient_norm).detach()
            self._weights = copies(self._tensors, BYTES_COPIED)

    def after_step(self) -> None:
        """The optimizer has moved the weights."""
        if not self.measuring:
            return
        with self._spent:
            weights, before = self._tensors or self._parameters(), self._weights
            self._found["weight_norm"] = weight_norm = total_norm(weights)
            if before:
                seen = weight_norm
                if len(before) < len(weights):
                    seen = total_norm(weights[: len(before)])
                self._found["update_ratio"] = change(before, weights) / seen.clamp_min(LEAST_NORM)
            self._tensors, self._weights = [], []

    def step_ended(self, *, step: int, samples: int) -> dict[str, Any]:
        """The boundary: what is known of each step. The rest comes from `arrived`.

        Args:
            step: finished optimizer steps.
            samples: that this one was trained on; 0 where that is unknown.
        """
        if self.rests:
            return {}
        took_s = None
        if self._began is not None:
            took_s, self._began = self._clock() - self._began, None
            if self._left <= self._look_at:
                took_s = self._look(step, took_s)
        rate = self._optimizer.param_groups[0].get("lr")
        if took_s and samples and type(rate) is float and self._norm is None:  # nearly always
            return {"step_time_s": took_s, "throughput": samples / took_s, "lr": rate}
        return self._known(took_s, samples, rate)

    def arrived(self) -> Sequence[tuple[int, dict[str, float]]]:
        """Measured steps whose values are here, by step; each is given once."""
        found = []
        while self.on_way and self.on_way[0].is_ready():
            measured = self.on_way.popleft()
            self._unpaid.append(measured)
            found.append((measured.step, {**measured.scalars(), "metrics_every": self.every}))
        return found

    def close(self) -> None:
        """Leave the model as it was found."""
        self._zeros.end()
        self._forget()

    # -- parts ------------------------------------------------------------------------------------

    def _known(self, took_s: float | None, samples: int, rate: Any) -> dict[str, Any]:
        """The same where something is missing, or more is known."""
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

    def _look(self, step: int, took_s: float) -> float:
        """A measured step has ended, or one whose time counts; what it took without measuring."""
        if self.measuring:
            return self._close(step, took_s)
        self._pace.stepped(took_s)
        if self._last is not None:
            self._last.next_s, self._last = took_s, None
        self._settle()
        self._left = min(self._left, self.every)
        self._look_at = self._left - (LOOK_EVERY if self.every > SELDOM else 1)
        return took_s

    def _settle(self) -> None:
        """Tell the pace what measured steps cost, where that is known."""
        while self._unpaid and self._unpaid[0] is not self._last:
            self._pace.measured(self._unpaid.popleft().cost_s(self._pace.usual_s))

    def _close(self, step: int, took_s: float) -> float:
        """Send what was measured on its way to the host; what the step took without all that."""
        spent = self._spent
        inside_s = spent.host_s - self._before_s
        with spent:
            self._zeros.end()
            names, values, arrived = self._collected()
            known = dict(self._stats.read())
        usual_s, around_s = self._pace.usual_s, spent.host_s - inside_s
        self._last = MeasuredStep(
            step=step,
            names=names,
            values=values,
            arrived=arrived,
            known=known,
            spent=spent,
            longer_s=0.0 if usual_s is None else around_s + took_s - usual_s,
        )
        self.on_way.append(self._last)
        self._forget()
        self._left = self.every
        self._look_at = self._left - 1
        return max(0.0, took_s - inside_s)

    def _collected(self) -> tuple[tuple[str, ...], torch.Tensor, Any]:
        """Names and values of all that was found, and the event of their arrival."""
        found = self._found
        zeros = self._zeros.fraction()
        if zeros is not None:
            found["activation_zero_fraction"] = zeros
        if self._hits:
            found["accuracy"] = torch.stack(self._hits).sum() / self._judged
        rate = self._optimizer.param_groups[0].get("lr")
        if isinstance(rate, torch.Tensor):
            found["lr"] = rate.detach()
        return tuple(found), *sent(list(found.values()), self._device)

    def _parameters(self) -> list[torch.Tensor]:
        groups = self._optimizer.param_groups
        every = (each for group in groups for each in group["params"])
        return [each for each in every if each.is_floating_point()]


def _device_of(parameters: Sequence[torch.Tensor]) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")


def _classifies(logits: Any, labels: Any) -> bool:
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
        self._unsubscribe = controller.sinks.subscribe(self._look_at_breakpoints)
        self._look_at_breakpoints()

    def _look_at_breakpoints(self) -> None:
        """Called when anything changed: one that reads the norm needs it of every step."""
        armed = (each for each in self._controller.list_breakpoints() if each.enabled)
        self.wants_norm = any("grad_norm" in each.condition.scalar_names for each in armed)

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
