"""Copies of what is printed: `write` of a standard stream, wrapped while somebody listens.

Only the attribute `write` of the stream object changes. No descriptor is redirected and no stream
is replaced, so `isatty`, `fileno`, `encoding` and `buffer` are those of the stream, and whoever
holds the stream, such as a logging handler, is heard too. In a forked child nobody listens.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Listener = Callable[[str], None]
log = logging.getLogger("midstep.core")


class _OwnLines(threading.local):
    """Whether this thread prints a line of midstep's own; its default is the class attribute."""

    depth = 0


_own = _OwnLines()
_LOGGING = logging.StreamHandler.emit.__code__
"""The code that prints a record of `logging`."""


@contextmanager
def own_lines() -> Iterator[None]:
    """What this thread prints inside the block is midstep's own: no listener gets it."""
    _own.depth += 1
    try:
        yield
    finally:
        _own.depth -= 1


class OwnStream:
    """A text stream on which everything that is written is midstep's own.

    Args:
        stream: the stream itself.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text; no listener gets it."""
        with own_lines():
            return int(self._stream.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class StreamTap:
    """The wrapper around `write` of one stream. Made by `listen`.

    Args:
        stream: any object with a `write` that can be replaced.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._through = through = stream.write
        self._was_replaced = "write" in vars(stream)
        self.listeners: tuple[Listener, ...] = ()

        def write(text: Any, *arguments: Any, **named: Any) -> Any:
            written = through(text, *arguments, **named)
            if self.listeners and type(text) is str and not _own.depth:
                self._tell(text)
            return written

        self._write = write
        stream.write = write

    def _tell(self, text: str) -> None:
        # The frame that called the wrapper; one lookup costs less than a print by far.
        caller = sys._getframe(2)
        if caller.f_code is _LOGGING and _is_own_record(caller.f_locals.get("record")):
            return
        for listener in self.listeners:
            try:
                listener(text)
            except Exception:
                # A fault of ours must not reach the user's print.
                self.remove(listener)
                log.exception("a listener of printed text raised and is off")

    def is_on_top(self, stream: Any) -> bool:
        """Whether `stream` is wrapped by this, and not by somebody else since."""
        return self._stream is stream and vars(stream).get("write") is self._write

    def add(self, listener: Listener) -> None:
        """Give `listener` every text that is written from now on."""
        self.listeners = (*self.listeners, listener)

    def remove(self, listener: Listener) -> None:
        """Give it nothing more. Without listeners the stream is as it was, if it is still ours."""
        self.listeners = tuple(each for each in self.listeners if each != listener)
        # Who has wrapped it after us keeps calling our wrapper, which then only passes text on.
        if self.listeners or not self.is_on_top(self._stream):
            return
        if self._was_replaced:
            self._stream.write = self._through
        else:
            del self._stream.write
        _taps.discard(self)


_taps: weakref.WeakSet[StreamTap] = weakref.WeakSet()
"""Those that are in use."""
_lock = threading.Lock()


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` with every text printed on standard output and error; returns how to end it.

    It is called by the thread that prints, after the text was written. It must return at once,
    take no lock, and raise nothing.
    """
    taps = []
    with _lock:
        for stream in _standard_streams():
            tap = next((each for each in _taps if each.is_on_top(stream)), None)
            try:
                tap = StreamTap(stream) if tap is None else tap
            except (AttributeError, TypeError):  # closed, or an object that takes no attribute
                continue
            _taps.add(tap)
            tap.add(listener)
            taps.append(tap)

    def end() -> None:
        with _lock:
            for tap in taps:
                tap.remove(listener)

    return end


def _standard_streams() -> list[Any]:
    """Standard output and error, once each."""
    streams: list[Any] = []
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and all(stream is not each for each in streams):
            streams.append(stream)
    return streams


def _is_own_record(record: Any) -> bool:
    return str(getattr(record, "name", "")).partition(".")[0] == "midstep"


def _leave_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    for tap in _taps:
        tap.listeners = ()


os.register_at_fork(after_in_child=_leave_fork)
