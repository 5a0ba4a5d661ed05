"""What counts as a scalar, and how it becomes a float, without importing torch or numpy."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["PLAIN_TYPES", "Deferred", "NotANumberError", "as_scalar"]

PLAIN_TYPES = frozenset({float, int, bool})
"""Types that `struct` packs as they stand."""


class NotANumberError(TypeError):
    """A value that was to be logged is no scalar; the message says what it is."""


class Deferred:
    """A scalar that is still on a device; reading it waits for the device.

    It is cloned in the caller's stream, since the caller may overwrite the tensor, and an event
    behind the clone lets another thread wait for exactly that.
    """

    __slots__ = ("_ready", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value.detach().clone()
        self._ready: Any = None
        torch = sys.modules.get("torch")
        if torch is not None and value.is_cuda:
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(value.device))

    def read(self) -> float:
        """Wait for the device and give the number; NaN when the device failed."""
        try:
            if self._ready is not None:
                self._ready.synchronize()
            return float(self._value.item())
        except RuntimeError:  # the device is gone; the training thread will meet the same error
            return float("nan")


def as_scalar(value: Any) -> float | Deferred:
    """`value` as a float, or deferred when it lies on a device other than the CPU.

    >>> as_scalar(True)
    1.0
    """
    kind = type(value)
    if kind in PLAIN_TYPES:
        return _to_float(value)
    device = getattr(value, "device", None)
    if device is not None and hasattr(value, "detach"):
        return _tensor_scalar(value, str(getattr(device, "type", device)))
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise NotANumberError(f"{kind.__name__} is no number")
    return _to_float(value)


def _tensor_scalar(value: Any, device: str) -> float | Deferred:
    if value.numel() != 1:
        raise NotANumberError(f"a tensor of shape {tuple(value.shape)} is no scalar")
    if value.is_complex() or device == "meta":
        raise NotANumberError(f"a {device} tensor of {value.dtype} is no number")
    return _to_float(value.detach()) if device == "cpu" else Deferred(value)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        reason = f"{type(value).__name__} has no value as a float: {error}"
        raise NotANumberError(reason[:200]) from error
