"""Memory and utilisation of the host and of the device that trains.

Two libraries are optional: psutil for the memory of the process (without it /proc is read) and
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

MIB = 1 << 20
_STATM = Path("/proc/self/statm")


class DeviceStats:
    """Memory and utilisation; measured at most once in `least_s` seconds.

    Args:
        device: the device that trains.
        least_s: a younger result is returned again, because drivers may answer slowly.
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
        self._gpu = _NvidiaGpu.for_device(device) if device.type == "cuda" else None
        self._cores = os.cpu_count() or 1
        self._read_at: float | None = None
        self._stats: dict[str, float] = {}
        self._cpu_s, self._cpu_at = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """host_memory_mib, cpu_percent of all cores; of a GPU memory and utilisation."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= self._least_s:
            self._read_at, self._stats = now, self._measure()
        return self._stats

    def _measure(self) -> dict[str, float]:
        stats = {"host_memory_mib": self._host_bytes() / MIB, "cpu_percent": self._cpu_percent()}
        if self._device.type == "cuda":
            stats["device_memory_mib"] = torch.cuda.memory_allocated(self._device) / MIB
            if self._gpu is not None and (percent := self._gpu.percent()) is not None:
                stats["device_utilisation_percent"] = percent
        return stats

    def _host_bytes(self) -> float:
        """Resident memory of this process; NaN where it is unknown."""
        if self._process is not None:
            return float(self._process.memory_info().rss)
        try:
            return float(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return float("nan")

    def _cpu_percent(self) -> float:
        """Share of all cores that this process used since the last call."""
        used_s, now = time.process_time(), time.perf_counter()
        spent_s, passed_s = used_s - self._cpu_s, now - self._cpu_at
        self._cpu_s, self._cpu_at = used_s, now
        return 100 * spent_s / (passed_s * self._cores) if passed_s > 0 else float("nan")


def _psutil_process() -> Any:
    """This process in psutil; None without psutil."""
    try:
        import psutil
    except ImportError:
        return None
    return psutil.Process()


class _NvidiaGpu:
    """One GPU in NVIDIA's management library (NVML)."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    @classmethod
    def for_device(cls, device: torch.device) -> _NvidiaGpu | None:
        """The GPU of a torch device; None without the library."""
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
            # By its unique id: indices of torch and NVML differ under CUDA_VISIBLE_DEVICES.
            unique = torch.cuda.get_device_properties(device).uuid
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{unique}"))
        except (pynvml.NVMLError, AttributeError):
            return None  # an old driver, or a slice of a GPU (MIG) without an id of its own

    def percent(self) -> float | None:
        """Share of the last sample period in which it was busy; None if the driver has no value."""
        try:
            return float(self._library.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        except self._library.NVMLError:
            return None
