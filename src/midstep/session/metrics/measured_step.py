"""One measured step: its values in transfer from the device, and what measuring it cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


class DeviceTimer:
    """Sums the time of several blocks of work, on the host and on a GPU.

    CUDA events mark the begin and the end of each block on the device, so that nothing waits for
    it; the sum is read when the last event has passed.

    Args:
        device: where the work runs.
        clock: monotonic seconds.

    >>> timer = DeviceTimer(torch.device("cpu"))
    >>> with timer:
    ...     _ = sum(range(10))
    >>> timer.seconds() > 0
    True
    """

    def __init__(
        self, device: torch.device, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._uses_events = device.type == "cuda"
        self._clock, self._host_s, self._began = clock, 0.0, 0.0
        self._pairs: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        self._began = self._clock()
        if self._uses_events:
            self._pairs.append((_mark(), None))

    def __exit__(self, *_: object) -> None:
        if self._uses_events:
            self._pairs[-1] = (self._pairs[-1][0], _mark())
        self._host_s += self._clock() - self._began

    @property
    def host_s(self) -> float:
        """Time on the host so far."""
        return self._host_s

    def is_ready(self) -> bool:
        """Whether the device has finished all blocks. Does not wait."""
        return all(after is not None and after.query() for _, after in self._pairs)

    def seconds(self) -> float:
        """Time on host and device together; call it when `is_ready`."""
        # The sum is an upper bound: it is unknown which of the two a step waits for.
        device_ms = sum(float(before.elapsed_time(after)) for before, after in self._pairs)
        return self._host_s + device_ms / 1000


def _mark() -> Any:
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


_UNKNOWN_IF_NAN = ("accuracy", "host_memory_mib")
"""NaN means unknown here; in norms it is a value, and must reach the charts."""


@dataclass(kw_only=True)
class MeasuredStep:
    """The values of one measured step; complete once `is_ready`."""

    step: int
    """Finished optimizer steps."""
    names: tuple[str, ...]
    values: torch.Tensor
    """[N], in the order of the names."""
    arrival: Any
    """A CUDA event; None if the values are on the host already."""
    known: Mapping[str, float]
    """Values that need no device."""
    timer: DeviceTimer
    longer_s: float = 0.0
    """How much longer than usual it took, with the work before and after it."""
    next_s: float | None = None
    """Time of the step after it; None if that has not ended, or was measured too."""

    def is_ready(self) -> bool:
        """Whether the values are on the host. Does not wait."""
        return self.arrival is None or (self.arrival.query() and self.timer.is_ready())

    def cost_s(self, usual_s: float | None) -> float:
        """What measuring cost: the larger of timer and extra time, and what the next step lost.

        Args:
            usual_s: median time of a step that is not measured.
        """
        next_longer_s = 0.0
        if self.next_s is not None and usual_s is not None:
            next_longer_s = max(0.0, self.next_s - usual_s)
        return max(self.timer.seconds(), self.longer_s) + next_longer_s

    def scalars(self) -> dict[str, float]:
        """All values by name, without unknown ones."""
        measured = dict(zip(self.names, self.values.tolist(), strict=True))
        return {
            name: value
            for name, value in {**measured, **self.known}.items()
            if not (math.isnan(value) and name in _UNKNOWN_IF_NAN)
        }


def start_transfer(
    values: Sequence[torch.Tensor], device: torch.device
) -> tuple[torch.Tensor, Any]:
    """Copy the values to one tensor on the host; the event of its arrival, None if it is there."""
    if not values:
        return torch.empty(0), None
    together = torch.stack([each.to(device, torch.float32, non_blocking=True) for each in values])
    if device.type != "cuda":
        return together.cpu(), None
    # One copy for all, and into pinned memory: only such a copy does not wait for the device.
    host = torch.empty(len(values), pin_memory=True)
    host.copy_(together, non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return host, event
