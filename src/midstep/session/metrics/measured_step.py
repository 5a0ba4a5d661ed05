"""One measured step: its values on their way from the device, and what measuring it cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch


class DeviceTimer:
    """A stopwatch for a few blocks of work; asked for its sum when the device is done.

    Args:
        device: where the work is given to.
        clock: monotonic seconds.

    >>> spent = DeviceTimer(torch.device("cpu"))
    >>> with spent:
    ...     _ = sum(range(10))
    >>> spent.seconds() > 0
    True
    """

    def __init__(
        self, device: torch.device, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._events = device.type == "cuda"
        self._clock, self._host_s, self._began = clock, 0.0, 0.0
        self._pairs: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        self._began = self._clock()
        if self._events:
            self._pairs.append((_mark(), None))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._events:
            self._pairs[-1] = (self._pairs[-1][0], _mark())
        self._host_s += self._clock() - self._began

    @property
    def host_s(self) -> float:
        """That of the host alone, so far."""
        return self._host_s

    def is_ready(self) -> bool:
        """Whether the device has done it all; nobody waits for it."""
        return all(after is not None and after.query() for _, after in self._pairs)

    def seconds(self) -> float:
        """Both times together, as either may be what a step waits for; ask when it is ready."""
        device_ms = sum(float(before.elapsed_time(after)) for before, after in self._pairs)
        return self._host_s + device_ms / 1000


def _mark() -> Any:
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


_UNTOLD = ("accuracy", "host_memory_mib")
"""Of these NaN stands for what could not be told."""


@dataclass(kw_only=True)
class MeasuredStep:
    """What was found in one step; complete once `is_ready`."""

    step: int
    """Finished optimizer steps."""
    names: tuple[str, ...]
    values: torch.Tensor
    """[N], in the order of the names."""
    arrived: Any
    """A CUDA event; None if the values are there."""
    known: Mapping[str, float]
    """What needed no device."""
    spent: DeviceTimer
    longer_s: float = 0.0
    """By how much it took longer than others, with what was done before and behind it."""
    next_s: float | None = None
    """What the step after it took; None while nobody knows, or if that was measured, too."""

    def is_ready(self) -> bool:
        """Whether the values are here; nobody waits for them."""
        return self.arrived is None or (self.arrived.query() and self.spent.is_ready())

    def cost_s(self, usual_s: float | None) -> float:
        """What it took: by its stopwatch or as a longer step, and as a longer one after it.

        Args:
            usual_s: what a step takes that is not measured, nor follows one.
        """
        left_behind = 0.0
        if self.next_s is not None and usual_s is not None:
            left_behind = max(0.0, self.next_s - usual_s)
        return max(self.spent.seconds(), self.longer_s) + left_behind

    def scalars(self) -> dict[str, float]:
        """Everything that is a number."""
        found = dict(zip(self.names, self.values.tolist(), strict=True))
        return {
            name: value
            for name, value in {**found, **self.known}.items()
            if not (math.isnan(value) and name in _UNTOLD)
        }


def sent(values: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, Any]:
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
