"""Runtime metrics: rate, times and throughput with each step; the costly ones with every k-th.

Those are norms, accuracy, zeros in activations, memory and utilisation. k is chosen so that
measuring takes at most one hundredth of the time, and stands in the facts as `metrics_every`. On a
GPU nothing waits: what was measured is copied once, asynchronously, and arrives with a later step
under the number of its own.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.session.activation_zeros import ActivationZeros
from midstep.session.device_stats import DeviceStats
from midstep.session.metric_pace import MetricPace
from midstep.session.spent import Spent
from midstep.session.step_norms import changes, copies, correct, gradients, total_norm

if TYPE_CHECKING:
    from torch.optim import Optimizer

__all__ = ["RuntimeMetrics"]

BYTES_COPIED = 512 << 20
"""Weights before a measured step, kept to see their change; what lies beyond is left out."""
LEAST_NORM = 1e-12


@dataclass
class _Measured:
    """One measured step, on its way from the device."""

    step: int
    names: tuple[str, ...]
    values: torch.Tensor
    arrived: Any
    """A CUDA event; None if the values are there."""
    known: dict[str, float]
    spent: Spent

    def is_ready(self) -> bool:
        return self.arrived is None or (self.arrived.query() and self.spent.is_ready())

    def scalars(self) -> dict[str, float]:
        """Everything that is a number; NaN stands for what could not be told."""
        found = dict(zip(self.names, self.values.tolist(), strict=True))
        return {
            name: value
            for name, value in {**found, **self.known}.items()
            if not (math.isnan(value) and name in ("accuracy", "host_memory_mib"))
        }


class RuntimeMetrics:
    """Measures a training from four places of its loop, all called by the training thread.

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
        self._stats: DeviceStats | None = None
        self._pace = MetricPace(share=share, every=every)
        self._on_way: deque[_Measured] = deque()
        self._began: float | None = None
        self._forget()

    def _forget(self) -> None:
        self._measuring = False
        self._spent = Spent(self._device, clock=self._clock)
        self._weights: list[torch.Tensor] = []
        self._found: dict[str, torch.Tensor] = {}
        self._hits: list[torch.Tensor] = []
        self._judged = 0

    @property
    def every(self) -> int:
        """Every how many steps are measured, as it stands."""
        return self._pace.every

    @property
    def measuring(self) -> bool:
        """Whether the step in progress is one of them."""
        return self._measuring

    # -- the loop ---------------------------------------------------------------------------------

    def step_begins(self) -> None:
        """A step begins: its time counts from here."""
        if self._measuring:
            self.close()  # the step before never ended
        if self._pace.due():
            self._forget()
            self._measuring = True
            with self._spent:
                self._zeros.begin()
        self._began = self._clock()

    def outputs(self, logits: Any, labels: Any) -> None:
        """What the loss was taken of; accuracy is told where these are logits and classes."""
        if self._measuring and _classifies(logits, labels):
            with self._spent:
                self._hits.append(correct(logits.detach(), labels))
                self._judged += len(labels)

    def before_step(self, gradient_norm: Any = None) -> None:
        """The gradients are there. `gradient_norm` is the one before clipping, where it is known.

        Without it the norm is that of the gradients as they stand.
        """
        if not self._measuring:
            return
        with self._spent:
            parameters = self._parameters()
            if gradient_norm is None:
                gradient_norm = total_norm(gradients(parameters))
                scale = getattr(self._optimizer, "grad_scale", None)
                if scale is not None:  # a fused optimizer takes the scale off by itself
                    gradient_norm = gradient_norm / scale
            self._found["grad_norm"] = torch.as_tensor(gradient_norm).detach()
            self._weights = copies(parameters, BYTES_COPIED)

    def after_step(self) -> None:
        """The optimizer has moved the weights."""
        if not self._measuring:
            return
        with self._spent:
            parameters = self._parameters()
            weight_norm = total_norm(parameters)
            self._found["weight_norm"] = weight_norm
            if self._weights:
                moved, kept = changes(self._weights, parameters)
                self._found["update_ratio"] = moved / kept.clamp_min(LEAST_NORM)
            self._weights = []

    def step_ended(self, *, step: int, samples: int) -> dict[str, float]:
        """The boundary: what is known of each step. The rest comes from `arrived`.

        Args:
            step: finished optimizer steps.
            samples: that this one was trained on; 0 where that is unknown.
        """
        took_s = None if self._began is None else self._clock() - self._began
        known = self._times(took_s, samples)
        if self._measuring:
            self._close(step)
        elif took_s is not None:
            self._pace.stepped(took_s)
        self._began = None
        return known

    def arrived(self) -> list[tuple[int, dict[str, float]]]:
        """Measured steps whose values are here, by step; each is given once."""
        found = []
        while self._on_way and self._on_way[0].is_ready():
            measured = self._on_way.popleft()
            self._pace.measured(measured.spent.seconds())
            found.append((measured.step, {**measured.scalars(), "metrics_every": self.every}))
        return found

    def close(self) -> None:
        """Leave the model as it was found."""
        self._zeros.end()
        self._forget()

    # -- parts ------------------------------------------------------------------------------------

    def _times(self, took_s: float | None, samples: int) -> dict[str, float]:
        known: dict[str, float] = {}
        if took_s is not None:
            known["step_time_s"] = took_s
            if samples and took_s > 0:
                known["throughput"] = samples / took_s
        rate = self._optimizer.param_groups[0].get("lr")
        if isinstance(rate, int | float):
            known["lr"] = float(rate)
        return known

    def _close(self, step: int) -> None:
        """Send what was measured on its way to the host."""
        with self._spent:
            self._zeros.end()
            zeros = self._zeros.fraction()
            if zeros is not None:
                self._found["activation_zero_fraction"] = zeros
            if self._hits:
                self._found["accuracy"] = torch.stack(self._hits).sum() / self._judged
            rate = self._optimizer.param_groups[0].get("lr")
            if isinstance(rate, torch.Tensor):
                self._found["lr"] = rate.detach()
            names = tuple(self._found)
            values, arrived = _sent([self._found[name] for name in names], self._device)
            if self._stats is None:
                self._stats = DeviceStats(self._device)
            known = dict(self._stats.read())
        measured = _Measured(step, names, values, arrived, known, self._spent)
        self._on_way.append(measured)
        self._forget()

    def _parameters(self) -> list[torch.Tensor]:
        groups = self._optimizer.param_groups
        every = (each for group in groups for each in group["params"])
        return [each for each in every if each.is_floating_point()]


def _sent(values: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, Any]:
    """The values as one tensor of the host, and the event of its arrival; None: it is there."""
    if not values:
        return torch.empty(0), None
    together = torch.stack([each.to(device, torch.float32, non_blocking=True) for each in values])
    if device.type != "cuda":
        return together.cpu(), None
    host = torch.empty(len(values), pin_memory=True)
    host.copy_(together, non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return host, event


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
