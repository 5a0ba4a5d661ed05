"""News of dead children that raise nothing: for a moment, or of those that a signal ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["expect_ended_workers", "is_ended_worker", "sigchld_ignored"]

_ENDED = "is killed by signal: Terminated"
"""How torch words it."""


@contextmanager
def sigchld_ignored() -> Iterator[None]:
    """Hold off what a handler of SIGCHLD would raise, to write down a failure in one piece.

    Torch raises from its handler wherever the main thread is when a loader's worker dies. The
    training has failed already when this is used, so nothing is lost by not hearing of it.

    >>> with sigchld_ignored():
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


def is_ended_worker(error: BaseException) -> bool:
    """Whether this is torch's complaint about a loader's worker that SIGTERM ended."""
    return isinstance(error, RuntimeError) and _ENDED in str(error)


def expect_ended_workers() -> None:
    """From now on it is no error that SIGTERM ends a loader's worker: it went to the whole group.

    Torch would raise that wherever the main thread is when it hears of it, perhaps long after
    the training has ended. Every other death is told as before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    told = signal.getsignal(signal.SIGCHLD)
    if not callable(told) or isinstance(told, _Expecting):
        return
    signal.signal(signal.SIGCHLD, _Expecting(told))


class _Expecting:
    """A handler of SIGCHLD that asks the one before it."""

    def __init__(self, told: Callable[[int, FrameType | None], object]) -> None:
        self._told = told

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self._told(number, frame)
        except RuntimeError as error:
            if not is_ended_worker(error):
                raise


def _nothing(_number: int, _frame: object) -> None:
    """A real handler: one that is cleared while a signal waits would be complained about."""
