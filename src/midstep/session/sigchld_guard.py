"""Keep torch's SIGCHLD handler from raising at the wrong moment.

When a worker of a DataLoader dies, torch raises an error from its SIGCHLD handler, wherever the
main thread happens to be: in the middle of a write, or long after the training has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDED = "is killed by signal: Terminated"
"""Part of torch's error message about a worker that SIGTERM ended."""
_KILLED = "is killed by signal: "
_GONE = "exited unexpectedly"
"""Part of torch's error message about a worker that it finds dead while it waits for a batch."""
_WAITING = "_try_get_data"
"""The function of torch that waits for a batch of the workers."""
_LOADER_FILE = "torch/utils/data/dataloader.py"


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
    """Whether a loader raised this because SIGTERM may have ended one of its workers.

    Such an error has several forms. The worker is reported as terminated, or it is found dead, or
    what it had begun to send cannot be read.
    """
    messages = [str(each) for each in _chain(error) if isinstance(each, RuntimeError)]
    if any(_KILLED in message and _ENDED not in message for message in messages):
        return False  # by another signal, such as that of a full memory
    if any(_ENDED in message or _GONE in message for message in messages):
        return True
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, OSError | EOFError) and any(map(_is_waiting, frames))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and the errors that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_waiting(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name == _WAITING and code.co_filename.endswith(_LOADER_FILE)


def _was_terminated(error: RuntimeError) -> bool:
    return _ENDED in str(error)


def defer_ended_workers() -> bool:
    """Raise the end of a worker by SIGTERM only where the loader waits for a batch.

    A batch system signals the whole process group. An error in the middle of a step would then
    leave half a step, instead of a checkpoint of the next boundary. True if this changed the
    handler; `stop_deferring` changes it back. Does nothing outside the main thread.
    """
    loader = sys.modules.get("torch.utils.data._utils.signal_handling")
    if loader is None or threading.current_thread() is not threading.main_thread():
        return False
    # Torch installs its handler with the first worker, on top of ours. So it is installed now.
    loader._set_SIGCHLD_handler()
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler) or isinstance(handler, _ExpectingHandler):
        return False
    signal.signal(signal.SIGCHLD, _DeferringHandler(handler))
    return True


def stop_deferring() -> None:
    """Undo `defer_ended_workers`."""
    handler = signal.getsignal(signal.SIGCHLD)
    if isinstance(handler, _DeferringHandler):
        signal.signal(signal.SIGCHLD, handler.wrapped)


def expect_ended_workers() -> None:
    """From now on, raise no error when SIGTERM ends a loader worker.

    A batch system signals the whole process group, so workers end together with the training. Other
    deaths of workers are raised as before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    stop_deferring()
    handler = signal.getsignal(signal.SIGCHLD)
    if callable(handler) and not isinstance(handler, _ExpectingHandler):
        signal.signal(signal.SIGCHLD, _ExpectingHandler(handler))


class _ExpectingHandler:
    """A SIGCHLD handler that calls the one before it, and drops its error about ended workers."""

    def __init__(self, wrapped: Callable[[int, FrameType | None], object]) -> None:
        self.wrapped = wrapped

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.wrapped(number, frame)
        except RuntimeError as error:
            if self._raises_at(frame) or not _was_terminated(error):
                raise

    def _raises_at(self, frame: FrameType | None) -> bool:
        del frame
        return False


class _DeferringHandler(_ExpectingHandler):
    """The same, but raises the error while the loader waits for a batch of the ended worker."""

    def _raises_at(self, frame: FrameType | None) -> bool:
        while frame is not None and not _is_waiting(frame):
            frame = frame.f_back
        return frame is not None


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing.

    A real handler, not SIG_IGN: with SIG_IGN the kernel reaps children itself, and their exit codes
    are lost. Python also reports a signal that is pending when its handler is cleared.
    """
