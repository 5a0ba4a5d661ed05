"""A moment in which news of dead children raise nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["undisturbed_by_children"]


@contextmanager
def undisturbed_by_children() -> Iterator[None]:
    """Hold off what a handler of SIGCHLD would raise, to write down a failure in one piece.

    Torch raises from its handler wherever the main thread is when a loader's worker dies. The
    training has failed already when this is used, so nothing is lost by not hearing of it.

    >>> with undisturbed_by_children():
    ...     signal.getsignal(signal.SIGCHLD) is _nothing
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    before = signal.signal(signal.SIGCHLD, _nothing)
    try:
        yield
    finally:
        # None stands for a handler that was not installed from Python; the default is closest.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if before is None else before)


def _nothing(_number: int, _frame: object) -> None:
    """A real handler: one that is cleared while a signal waits would be complained about."""
