"""The loss as a number for whoever asks, so that nobody but the training thread meets a device.

A loss on a device is copied to the host some ten times a second, behind the step that made it, and
read once the copy has arrived. Where the loop stands or ends it is read at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from midstep.control.capture.capture_store import as_float, is_on_device

COPY_EVERY_S = 0.1
WAIT_EVERY_S = 1.0
"""Of devices that cannot copy behind our back: each reading waits."""


class LossReadout:
    """Noted by the training thread, read by anybody.

    Args:
        clock: monotonic seconds.

    >>> reading = LossReadout(lambda: 0.0)
    >>> reading.note(0.5)
    >>> reading.read(0.5)
    0.5
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._value: float | None = None
        self._read_at: float | None = None
        self._host_copy: Any = None
        self._copy_done: Any = None

    def read(self, loss: Any) -> float | None:
        """`loss` as a number; for one on a device the last that was read, of a step or so ago."""
        return self._value if is_on_device(loss) else as_float(loss)

    def note(self, loss: Any) -> None:
        """A step has ended with this loss. The training thread's; on a GPU it waits for nothing."""
        if not is_on_device(loss):
            return
        if self._copy_done is not None and self._copy_done.query():
            self._value, self._copy_done = as_float(self._host_copy), None
        now, copies = self._clock(), loss.device.type == "cuda"
        due_s = COPY_EVERY_S if copies else WAIT_EVERY_S
        if self._copy_done is not None or (
            self._read_at is not None and now - self._read_at < due_s
        ):
            return
        self._read_at = now
        if copies:
            self._start_copy(loss)
        else:
            self._value = as_float(loss)

    def read_now(self, loss: Any) -> None:
        """The loop stands or ends: read the very loss. The training thread's; it may wait."""
        if is_on_device(loss):
            self._value, self._copy_done = as_float(loss), None

    def forget(self) -> None:
        """The loop stands at another step now."""
        self._value = self._copy_done = self._read_at = None

    def _start_copy(self, loss: Any) -> None:
        if loss.numel() != 1:
            return
        torch: Any = sys.modules["torch"]
        if self._host_copy is None or self._host_copy.dtype != loss.dtype:
            self._host_copy = torch.empty((), dtype=loss.dtype, pin_memory=True)
        self._host_copy.copy_(loss.detach().reshape(()), non_blocking=True)
        arrival = torch.cuda.Event()
        arrival.record(torch.cuda.current_stream(loss.device))
        self._copy_done = arrival
