"""Signals: the first stops the run at the next boundary, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from midstep.control import Command
from midstep.core.errors import StopTraining
from midstep.session.sigchld_guard import (
    defer_ended_workers,
    expect_ended_workers,
    is_ended_worker,
    stop_deferring,
)

if TYPE_CHECKING:
    from midstep.control import DebugController

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_TO_END = (signal.SIGTERM, signal.SIGHUP)
SIGNAL_WAIT_S = 1.0
"""How long the signal of a group may take to reach this process after it ended a worker."""


class GracefulStop:
    """While entered, the first of `signals` calls `on_stop`, from a thread of its own.

    Only the main thread can handle signals; elsewhere this does nothing. A handler that the user
    installed is left alone.

    Args:
        on_stop: brings the run to a stop; receives the name of the signal.
        on_abort: called right before a second signal ends the process, to restore a terminal.
        signals: which ones.
        has_workers: whether a loader of the run has workers, which signals may end first.
    """

    def __init__(
        self,
        on_stop: Callable[[str], None],
        on_abort: Callable[[], None] = lambda: None,
        *,
        signals: Iterable[signal.Signals] = (*_TO_END, signal.SIGINT),
        has_workers: bool = False,
    ) -> None:
        self._on_stop, self._on_abort, self._signals = on_stop, on_abort, tuple(signals)
        self._received: SimpleQueue[int | None] = SimpleQueue()
        self._count = 0
        self._process = os.getpid()
        self._previous: dict[signal.Signals, object] = {}
        self._has_workers, self._defers = has_workers, False
        self._outer: GracefulStop | None = None
        self._thread = threading.Thread(target=self._listen, name="midstep-signals", daemon=True)

    @property
    def is_received(self) -> bool:
        """Whether a signal has arrived."""
        return self._count > 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._thread.start()
            self._defers = self._has_workers and defer_ended_workers()
            for number in self._signals:
                handler = signal.getsignal(number)
                if handler in _DEFAULTS:
                    self._previous[number] = signal.signal(number, self._handle)
                elif isinstance(owner := getattr(handler, "__self__", None), GracefulStop):
                    self._outer = owner  # such as that of `serve` around `fit`
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_stopping:  # also by the signal that the outer one received: workers end now
            expect_ended_workers()
        elif self._defers:
            stop_deferring()
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal returned
        if self._thread.is_alive():
            self._received.put(None)
            self._thread.join()

    def caused(self, error: BaseException | None) -> bool:
        """Whether a signal is the reason why the block ends; not for an error of the user's code.

        A batch system signals the whole process group. A loader worker then ends first, and the
        loader raises because of that.
        """
        if error is None or isinstance(error, StopTraining):
            return self.is_received
        if not is_ended_worker(error) or not (self._previous or self._outer):
            return False
        # The kernel signals one process after another: the worker's end may be seen here first.
        deadline = time.monotonic() + SIGNAL_WAIT_S
        while not self._is_stopping and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._is_stopping

    @property
    def _is_stopping(self) -> bool:
        return self.is_received or (self._outer is not None and self._outer._is_stopping)

    def as_stop(self, error: BaseException) -> BaseException:
        """`error`, or a `StopTraining` in its place if a signal caused it."""
        return StopTraining("stopped by a signal") if self.caused(error) else error

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        # A handler runs between any two instructions of the main thread, which may hold the lock
        # that a stop needs. So it only puts the number into a queue, and a thread does the rest.
        # SimpleQueue.put is safe to call from a handler, Queue.put is not.
        if os.getpid() != self._process:  # a forked child inherits the handler, but no thread
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._count += 1
        if self._count > 1:
            self._on_abort()
            os._exit(128 + number)
        self._received.put(number)

    def _listen(self) -> None:
        while (number := self._received.get()) is not None:
            self._on_stop(signal.Signals(number).name)


def stop_at_signals(
    controller: DebugController, note_stop: Callable[[str], None], *, loaders: Iterable[Any] = ()
) -> GracefulStop:
    """Stop the controller's loop at SIGTERM and SIGHUP; Ctrl-C stays a `KeyboardInterrupt`.

    Args:
        controller: of the loop.
        note_stop: receives the name of the signal before the stop.
        loaders: of the run; a signal may end their workers first.
    """

    def stop(cause: str) -> None:
        note_stop(cause)
        controller.submit(Command(name="stop", who="system"))

    has_workers = any(getattr(loader, "num_workers", 0) for loader in loaders)
    return GracefulStop(stop, signals=_TO_END, has_workers=has_workers)
