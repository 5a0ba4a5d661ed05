"""The loss as a number for readers on any thread, without waiting for a GPU.

A loss on a GPU is copied to the host at most ten times a second, and read once the copy has
arrived. When the loop parks or ends, it is read at once. Only the training thread touches the
device. `item()` in every step would cost 2 to 5 % (ResNet-50 and GPT-2 small on an H200).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from midstep.control.capture.captured_data import as_float, is_on_device

COPY_EVERY_S = 0.1
WAIT_EVERY_S = 1.0
"""For devices without asynchronous copies (MPS): each read waits for the device."""


class LossReadout:
    """Written by the training thread, read by any thread.

    Args:
        clock: monotonic seconds.

    >>> readout = LossReadout(lambda: 0.0)
    >>> readout.note(0.5)
    >>> readout.read(0.5)
    0.5
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._value: float | None = None
        self._read_at: float | None = None
        self._host_copy: Any = None
        self._copy_done: Any = None

    def read(self, loss: Any) -> float | None:
        """`loss` as a number; for a loss on a device the last one read, from some steps ago."""
        return self._value if is_on_device(loss) else as_float(loss)

    def note(self, loss: Any) -> None:
        """Take the loss of a finished step. On the training thread; does not wait for a GPU."""
        if not is_on_device(loss):
            return
        if self._copy_done is not None and self._copy_done.query():
            self._value, self._copy_done = as_float(self._host_copy), None
        if self._copy_done is not None:  # one copy at a time: there is one buffer on the host
            return
        now, is_cuda = self._clock(), loss.device.type == "cuda"
        interval_s = COPY_EVERY_S if is_cuda else WAIT_EVERY_S
        if self._read_at is not None and now - self._read_at < interval_s:
            return
        self._read_at = now
        if is_cuda:
            self._start_copy(loss)
        else:
            self._value = as_float(loss)

    def read_now(self, loss: Any) -> None:
        """Read this loss even if the device must be waited for: the loop parks or ends."""
        if is_on_device(loss):
            self._value, self._copy_done = as_float(loss), None

    def forget(self) -> None:
        """Drop the value: the loop went to another step."""
        self._value = self._copy_done = self._read_at = None

    def _start_copy(self, loss: Any) -> None:
        if loss.numel() != 1:
            return
        torch: Any = sys.modules["torch"]  # loaded already; `control` itself needs no torch
        if self._host_copy is None or self._host_copy.dtype != loss.dtype:
            # Only a copy into pinned memory is asynchronous.
            self._host_copy = torch.empty((), dtype=loss.dtype, pin_memory=True)
        self._host_copy.copy_(loss.detach().reshape(()), non_blocking=True)
        self._copy_done = torch.cuda.Event()
        self._copy_done.record(torch.cuda.current_stream(loss.device))
