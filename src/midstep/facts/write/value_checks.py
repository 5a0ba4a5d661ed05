"""Checks unusual steps, names and values one by one: keeps valid ones, notes the others once.

Scalars that are still on a device are read later, by the thread that writes them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from midstep.core.media.given_values import Unreadable, described
from midstep.facts.format.step_frames import MAXIMUM_NAMES
from midstep.facts.write.record_files import LONGEST_NAME

PLAIN_TYPES = frozenset({float, int, bool})
"""Types that `struct` packs without conversion."""
MOST_NOTES = 256
"""Names whose refusal is recorded. A loop may log a new invalid name at every step."""


REMEDY = (
    "log takes a number, a text, a picture (H×W, or with 1, 3 or 4 channels), a list of numbers, "
    "a table, or midstep.histogram(values)"
)


class NotANumberError(TypeError):
    """A value to log is not a scalar; the message says what it is."""


class DeviceScalar:
    """A scalar that is still on a device; reading it waits for the device.

    The value is cloned in the caller's stream, since the caller may overwrite the tensor. An event
    recorded after the clone lets another thread wait for exactly that.
    """

    __slots__ = ("_ready", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value.detach().clone()
        self._ready: Any = None
        # From `sys.modules`: facts must not import torch, and a tensor cannot exist without it.
        torch = sys.modules.get("torch")
        if torch is not None and value.is_cuda:
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(value.device))

    def read(self) -> float:
        """Wait for the device and return the number; NaN if the device failed."""
        try:
            if self._ready is not None:
                self._ready.synchronize()
            return float(self._value.item())
        except RuntimeError:  # the device is gone; the training thread will meet the same error
            return float("nan")


def as_scalar(value: Any) -> float | DeviceScalar:
    """`value` as a float; as a `DeviceScalar` if it is on a device other than the CPU.

    >>> as_scalar(True)
    1.0
    """
    kind = type(value)
    if kind in PLAIN_TYPES:
        return _to_float(value)
    if kind is Unreadable:
        raise NotANumberError(value.reason)
    # Tensors are recognised by what they have, so that torch need not be imported.
    device = getattr(value, "device", None)
    if device is not None and hasattr(value, "detach"):
        return _tensor_scalar(value, str(getattr(device, "type", device)))
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise NotANumberError(f"{described(value)} is not a number; {REMEDY}")
    return _to_float(value)


def _tensor_scalar(value: Any, device: str) -> float | DeviceScalar:
    if value.numel() != 1:
        raise NotANumberError(f"a tensor of shape {tuple(value.shape)} is not a scalar; {REMEDY}")
    if value.is_complex() or device == "meta":
        raise NotANumberError(f"a {device} tensor of {value.dtype} is not a number")
    return _to_float(value.detach()) if device == "cpu" else DeviceScalar(value)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        reason = f"{type(value).__name__} cannot be converted to a float: {error}"
        raise NotANumberError(reason[:200]) from error


class ValueChecks:
    """Checks steps, names and values that `struct` could not pack.

    Args:
        note: called with a name and the reason why it was refused.
    """

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self._report = note
        self._noted: set[str] = set()

    def step(self, step: Any) -> int | None:
        """`step` as a 64-bit integer; None, and a note, if it cannot be one."""
        try:
            number = operator.index(step) if hasattr(step, "__index__") else int(step)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            number = 2**63  # out of range, so it is refused below
        if -(2**63) <= number < 2**63:
            return number
        self._note("step", f"{str(step)[:64]} is not a step number")
        return None

    def scalars(self, values: Mapping[str, Any]) -> dict[str, float | DeviceScalar]:
        """The `values` that can be written, under names that can be written."""
        scalars: dict[str, float | DeviceScalar] = {}
        for name, value in values.items():
            if len(scalars) == MAXIMUM_NAMES:
                self._note("names", f"more than {MAXIMUM_NAMES} names in one row")
                break
            # A lone surrogate cannot be written as UTF-8; its escape can.
            text = str(name).encode("utf-8", "backslashreplace").decode()
            if len(text) > LONGEST_NAME:
                self._note(text[:64], f"a name of {len(text)} characters is too long")
                continue
            try:
                scalars[text] = as_scalar(value)
            except NotANumberError as error:
                self._note(text[:64], str(error))
        return scalars

    def refuse(self, name: str, reason: str) -> None:
        """Note that a value of this name is not recorded, once for each name; from any thread."""
        self._note(name[:64], reason)

    def _note(self, name: str, reason: str) -> None:
        """Note a refusal, once for each name."""
        if name not in self._noted and len(self._noted) < MOST_NOTES:
            self._noted.add(name)
            self._report(name, reason)
