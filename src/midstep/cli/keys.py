"""Single keys from a terminal, read off the training thread."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["Keys"]


class Keys:
    """While it is entered, each key pressed in the terminal is handed to `on_key`.

    Without a terminal on stdin, or on a system without termios, it does nothing.

    Args:
        on_key: called with one character, from a thread of its own.
        descriptor: where to read; stdin when left out.
    """

    def __init__(self, on_key: Callable[[str], None], *, descriptor: int | None = None) -> None:
        self._on_key = on_key
        self._input = _stdin() if descriptor is None else descriptor
        self._saved: list[Any] | None = None
        self._wake: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    @property
    def active(self) -> bool:
        """Whether keys are read."""
        return self._thread is not None

    def __enter__(self) -> Self:
        if self._input is None or not os.isatty(self._input) or not _owns(self._input):
            return self
        import termios
        import tty

        self._saved = termios.tcgetattr(self._input)
        # cbreak, not raw: Ctrl-C stays a signal, and output keeps its line ends.
        tty.setcbreak(self._input)
        self._wake = os.pipe()
        self._thread = threading.Thread(
            target=self._read, args=(self._input, self._wake[0]), name="midstep-keys", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is None or self._wake is None:
            return
        os.write(self._wake[1], b"x")
        self._thread.join()
        self._thread = None
        for end in self._wake:
            os.close(end)
        self.restore()

    def restore(self) -> None:
        """Put the terminal back as it was found; safe to call twice and from a signal handler."""
        if self._saved is None or self._input is None:
            return
        import termios

        saved, self._saved = self._saved, None
        try:
            termios.tcsetattr(self._input, termios.TCSADRAIN, saved)
        except termios.error:
            return  # the terminal is gone, so there is nothing to put back

    def _read(self, terminal: int, wake: int) -> None:
        while True:
            ready, _, _ = select.select([terminal, wake], [], [])
            if wake in ready:
                return
            try:
                typed = os.read(terminal, 32)
            except OSError:
                return  # the terminal was closed; signals still reach the run
            if not typed:
                return
            for key in typed.decode("utf-8", "ignore"):
                self._on_key(key)


def _stdin() -> int | None:
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None  # stdin is closed or not a file


def _owns(descriptor: int) -> bool:
    """Whether this process is in the foreground; in the background a read would stop it."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
