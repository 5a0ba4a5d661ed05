"""Keep torch's SIGCHLD handler from raising at the wrong moment.

When a worker of a DataLoader dies, torch raises an error from its SIGCHLD handler, wherever the
main thread happens to be: in the middle of a write, or long after the training has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDED = "is killed by signal: Terminated"
"""Part of torch's error message about a worker that SIGTERM ended."""


@contextmanager
def sigchld_ignored() -> Iterator[None]:
    """Let no SIGCHLD handler raise inside the block, so that a write is not interrupted.

    No death of a worker is lost: the loader notices it at its next batch.

    >>> with sigchld_ignored():
    ...     signal.getsignal(signal.SIGCHLD) is _ignore
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    before = signal.signal(signal.SIGCHLD, _ignore)
    try:
        yield
    finally:
        # None means a handler that was not installed from Python; the default is closest to it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if before is None else before)


def is_ended_worker(error: BaseException) -> bool:
    """Whether this is torch's error about a loader worker that SIGTERM ended."""
    return isinstance(error, RuntimeError) and _ENDED in str(error)


def expect_ended_workers() -> None:
    """From now on, raise no error when SIGTERM ends a loader worker.

    A batch system signals the whole process group, so workers end together with the training. Other
    deaths of workers are raised as before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(handler, _ExpectingHandler):
        signal.signal(signal.SIGCHLD, _ExpectingHandler(handler))


class _ExpectingHandler:
    """A SIGCHLD handler that calls the one before it, and drops its error about ended workers."""

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handler(number, frame)
        except RuntimeError as error:
            if not is_ended_worker(error):
                raise


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing.

    A real handler, not SIG_IGN: with SIG_IGN the kernel reaps children itself, and their exit codes
    are lost. Python also reports a signal that is pending when its handler is cleared.
    """
