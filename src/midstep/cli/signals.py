"""Signals: the first asks for a stop at the next boundary, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Self

__all__ = ["GracefulStop"]

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class GracefulStop:
    """While entered, SIGTERM, SIGINT and SIGHUP call `on_stop` once, from a thread of its own.

    The handler itself only puts a number into a queue: it runs between any two instructions of
    the main thread, which may hold the very lock that a stop needs.

    Args:
        on_stop: asked to bring the run to its boundary; gets the signal's name.
        on_abort: called right before the process ends at a second signal, to put a terminal back.
    """

    def __init__(self, on_stop: Callable[[str], None], on_abort: Callable[[], None]) -> None:
        self._on_stop, self._on_abort = on_stop, on_abort
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._count = 0
        self._previous: dict[signal.Signals, object] = {}
        self._thread = threading.Thread(target=self._listen, name="midstep-signals", daemon=True)

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._count > 0

    def __enter__(self) -> Self:
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                if signal.getsignal(number) in _DEFAULTS:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal gave
        self._asked.put(None)
        self._thread.join()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            self._on_abort()
            os._exit(128 + number)
        self._asked.put(number)

    def _listen(self) -> None:
        while (number := self._asked.get()) is not None:
            self._on_stop(signal.Signals(number).name)
