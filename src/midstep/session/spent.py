"""What measuring takes: time of the host, and of the device where work was given to one."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

__all__ = ["Spent"]


class Spent:
    """A stopwatch for a few blocks of work; asked for its sum when the device is done.

    Args:
        device: where the work is given to.
        clock: monotonic seconds.

    >>> spent = Spent(torch.device("cpu"))
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
