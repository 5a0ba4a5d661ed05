"""Signals: the first asks for a stop at the next boundary, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from midstep.control import Command
from midstep.core.errors import StopTraining
from midstep.session.sigchld_guard import expect_ended_workers, is_ended_worker

if TYPE_CHECKING:
    from midstep.control import DebugController

__all__ = ["GracefulStop", "stop_at_signals"]

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_TO_END = (signal.SIGTERM, signal.SIGHUP)


class GracefulStop:
    """While entered, each of `signals` calls `on_stop` once, from a thread of its own.

    The handler itself only puts a number into a queue: it runs between any two instructions of
    the main thread, which may hold the very lock that a stop needs. Only the main thread can
    handle signals, and a handler that is not Python's own is left alone.

    Args:
        on_stop: asked to bring the run to its boundary; gets the signal's name.
        on_abort: called right before the process ends at a second signal, to put a terminal back.
        signals: which ones.
    """

    def __init__(
        self,
        on_stop: Callable[[str], None],
        on_abort: Callable[[], None] = lambda: None,
        *,
        signals: Iterable[signal.Signals] = (*_TO_END, signal.SIGINT),
    ) -> None:
        self._on_stop, self._on_abort, self._signals = on_stop, on_abort, tuple(signals)
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._count = 0
        self._process = os.getpid()
        self._previous: dict[signal.Signals, object] = {}
        self._thread = threading.Thread(target=self._listen, name="midstep-signals", daemon=True)

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._count > 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._thread.start()
            for number in self._signals:
                if signal.getsignal(number) in _DEFAULTS:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.asked:
            expect_ended_workers()
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal gave
        if self._thread.is_alive():
            self._asked.put(None)
            self._thread.join()

    def caused(self, error: BaseException | None) -> bool:
        """Whether a signal is why the block ends so; an error of the user's own is not.

        A batch system signals the whole group: then a loader's worker dies of it first, and the
        loader raises.
        """
        is_stop = error is None or isinstance(error, StopTraining) or is_ended_worker(error)
        return self.asked and is_stop

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked child has our handler, but not our thread
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._count += 1
        if self._count > 1:
            self._on_abort()
            os._exit(128 + number)
        self._asked.put(number)

    def _listen(self) -> None:
        while (number := self._asked.get()) is not None:
            self._on_stop(signal.Signals(number).name)


def stop_at_signals(controller: DebugController, note: Callable[[str], None]) -> GracefulStop:
    """SIGTERM and SIGHUP stop this controller's loop; Ctrl-C stays a `KeyboardInterrupt`.

    `note` is told the signal's name before the stop.
    """

    def stop(cause: str) -> None:
        note(cause)
        controller.submit(Command(name="stop", who="system"))

    return GracefulStop(stop, signals=_TO_END)
