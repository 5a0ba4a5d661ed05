"""Copies of tensors for readers: from a GPU to pinned memory, without waiting for the device.

The copies run on the CUDA stream that is current on the training thread, so they are ordered with
the training. A reader waits for their end; the training thread never does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

HOST_BYTES = 32 * 2**20
"""Larger tensors stay on the GPU: pinned memory is taken from the whole machine."""


class Ready:
    """Tells when copies are complete.

    Args:
        events: CUDA events that were recorded after the copies.
    """

    def __init__(self, events: tuple[Any, ...]) -> None:
        self._events = events

    def wait(self) -> None:
        """Wait until all copies are complete. Called by readers, on any thread."""
        for event in self._events:
            event.synchronize()


class TensorCopies:
    """Copies tensors, and remembers what a reader must wait for. Used on the training thread."""

    def __init__(self) -> None:
        self._devices: set[Any] = set()
        self._events: list[Any] = []

    def copy(self, tensor: Any) -> Any:
        """A detached copy: of a CUDA tensor in pinned memory, of any other where it is."""
        source = tensor.detach()
        if not self.note(source):
            return source.clone()
        torch: Any = sys.modules["torch"]  # already loaded: a tensor exists
        is_plain = type(source) is torch.Tensor and source.layout is torch.strided
        if not is_plain or source.nbytes > HOST_BYTES:
            return source.clone()
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        return host.copy_(source.contiguous(), non_blocking=True)

    def note(self, tensor: Any) -> bool:
        """Remember that a reader must wait for `tensor`. Returns whether it is on CUDA."""
        is_cuda = is_on_cuda(tensor)
        if is_cuda:
            self._devices.add(tensor.device)
        return is_cuda

    def mark(self) -> None:
        """Record an event after the copies so far, on the stream on which they run."""
        torch: Any = sys.modules.get("torch")
        for device in self._devices:
            # Blocking: a reader that waits sleeps, instead of taking a core from the training.
            event = torch.cuda.Event(blocking=True)
            event.record(torch.cuda.current_stream(device))
            self._events.append(event)
        self._devices.clear()

    def take(self) -> Ready | None:
        """What a reader must wait for; None if all copies are complete."""
        events, self._events = tuple(self._events), []
        return Ready(events) if events else None


def is_on_cuda(value: Any) -> bool:
    """Whether `value` is a tensor on a CUDA device."""
    return bool(getattr(getattr(value, "device", None), "type", "cpu") == "cuda")


@contextmanager
def capture_context() -> Iterator[None]:
    """Gradients and autocast are off inside the block: it is not part of the training."""
    torch: Any = sys.modules.get("torch")
    if torch is None:  # `control` works without torch
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in ("cuda", "cpu"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield
