"""What an epoch cost: time, throughput, memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

__all__ = ["EpochMeter"]


class EpochMeter:
    """Counts the samples of an epoch and tells, at its end, what it cost.

    >>> now = iter([0.0, 2.0])
    >>> meter = EpochMeter(clock=lambda: next(now))
    >>> meter.add(100)
    >>> meter.end()["throughput"]
    50.0
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._samples = 0

    def begin(self) -> None:
        """An epoch begins."""
        self._began, self._samples = self._clock(), 0

    def add(self, samples: int) -> None:
        """So many samples were trained on."""
        self._samples += samples

    def end(self) -> dict[str, float | None]:
        """Seconds since it began, pauses included; samples a second; this process's peak so far."""
        took_s = self._clock() - self._began
        known = self._samples > 0 and took_s > 0
        return {
            "epoch_time_s": took_s,
            "throughput": self._samples / took_s if known else None,
            "max_memory_mib": _peak_memory_mib(),
        }


def _peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
