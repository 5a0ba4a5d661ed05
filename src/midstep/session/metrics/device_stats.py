"""Memory and utilisation of the host and of the device that trains.

Both libraries that know more are optional: psutil (else the process table of Linux is read) and
nvidia-ml-py for the utilisation of a GPU.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

__all__ = ["DeviceStats"]

MIB = 1 << 20
_STATM = Path("/proc/self/statm")


class DeviceStats:
    """What the process takes of its machine; read at most once in `least_s` seconds.

    Args:
        device: the one that trains.
        least_s: an answer of this age is given again, as the drivers may take their time.
        clock: monotonic seconds.

    >>> DeviceStats(torch.device("cpu")).read()["host_memory_mib"] > 1
    True
    """

    def __init__(
        self,
        device: torch.device,
        *,
        least_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device, self._least_s, self._clock = device, least_s, clock
        self._process = _psutil_process()
        self._gpu = _NvidiaGpu.of(device) if device.type == "cuda" else None
        self._cores = os.cpu_count() or 1
        self._read_at: float | None = None
        self._kept: dict[str, float] = {}
        self._cpu_s, self._cpu_at = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """`host_memory_mib`, `cpu_percent` of all cores; on a GPU also its memory and use."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= self._least_s:
            self._read_at, self._kept = now, self._measured()
        return self._kept

    def _measured(self) -> dict[str, float]:
        found = {"host_memory_mib": self._host_bytes() / MIB, "cpu_percent": self._cpu_percent()}
        if self._device.type == "cuda":
            found["device_memory_mib"] = torch.cuda.memory_allocated(self._device) / MIB
            if self._gpu is not None and (percent := self._gpu.percent()) is not None:
                found["device_utilisation_percent"] = percent
        else:
            found["device_utilisation_percent"] = found["cpu_percent"]
        return found

    def _host_bytes(self) -> float:
        """Memory of this process that is in RAM; NaN where nobody tells."""
        if self._process is not None:
            return float(self._process.memory_info().rss)
        try:
            return float(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return float("nan")

    def _cpu_percent(self) -> float:
        """Share of all cores that this process used since it was asked before."""
        used_s, now = time.process_time(), time.perf_counter()
        spent_s, passed_s = used_s - self._cpu_s, now - self._cpu_at
        self._cpu_s, self._cpu_at = used_s, now
        return 100 * spent_s / (passed_s * self._cores) if passed_s > 0 else float("nan")


def _psutil_process() -> Any:
    """This process as psutil sees it; None without psutil."""
    try:
        import psutil
    except ImportError:
        return None
    return psutil.Process()


class _NvidiaGpu:
    """One GPU as NVIDIA's management library sees it."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    @classmethod
    def of(cls, device: torch.device) -> _NvidiaGpu | None:
        """The GPU of a torch device, found by its id; None where the library is not there."""
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
            unique = torch.cuda.get_device_properties(device).uuid
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{unique}"))
        except (pynvml.NVMLError, AttributeError):
            return None  # an old driver, or a part of a GPU that has no id of its own

    def percent(self) -> float | None:
        """Share of the last moments in which it worked; None where the driver does not tell."""
        try:
            return float(self._library.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        except self._library.NVMLError:
            return None
