"""Keeps what a run prints: copies of what goes to standard output and error, in its own files.

What C code or subprocesses print goes past Python and is not captured. A print costs one append to
a list; a thread writes twice a second. If the disk refuses, the capture ends with one line.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from midstep.core.errors import ConfigError, MidstepError
from midstep.core.standard_streams import print_notice
from midstep.core.streams.stream_tap import listen
from midstep.facts.write.console_writer import FIRST_BYTES, LAST_BYTES, ConsoleWriter

WRITE_EVERY_S = 0.5
COMMIT_EVERY_S = 4.0
"""A line in progress, such as a progress bar, is in the file after so long."""
VARIABLE = "MIDSTEP_CONSOLE"
BLOCK_CHARACTERS = 1 << 20
BLOCK_TEXTS = 4096
"""Above either limit texts are joined: one object per short text would take more memory."""
CLOSE_S = 10.0
"""How long an end waits for a disk that does not answer."""

log = logging.getLogger("midstep.session")


def is_console_on(wanted: bool = True) -> bool:
    """Whether console output is captured: as the caller wants, unless MIDSTEP_CONSOLE is off."""
    value = os.environ.get(VARIABLE) or "on"
    if value not in ("on", "off"):
        raise ConfigError(f"{VARIABLE} is {value!r}; set it to on or off, or unset it")
    return wanted and value == "on"


class PrintedText:
    """What was printed and is not written yet: the first part, and of the rest the newest.

    `add` waits for no lock, because a signal handler may print while the same thread is in it.
    """

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._characters = 0  # in `_texts`; two threads may miscount it, until the next block
        self._lock = threading.Lock()
        # Under the lock:
        self._first = ""
        self._first_left = FIRST_BYTES
        self._blocks: deque[str] = deque()
        self._dropped = (0, 0)

    def add(self, text: str) -> None:
        """Take one more text."""
        self._texts.append(text)
        self._characters += len(text)
        is_full = self._characters > BLOCK_CHARACTERS or len(self._texts) > BLOCK_TEXTS
        if is_full and self._lock.acquire(blocking=False):
            try:
                self._make_block()
            finally:
                self._lock.release()

    def _make_block(self) -> None:
        """Join what there is to one text, and drop what is too old. Under the lock."""
        texts = [self._texts.popleft() for _ in range(len(self._texts))]
        self._characters = 0
        block = "".join(texts)
        if self._first_left > 0:
            first, block = block[: self._first_left], block[self._first_left :]
            self._first_left -= len(first)
            self._first += first
        self._drop(block[:-LAST_BYTES])
        self._blocks.append(block[-LAST_BYTES:])
        while sum(map(len, self._blocks)) - len(self._blocks[0]) >= LAST_BYTES:
            self._drop(self._blocks.popleft())

    def _drop(self, text: str) -> None:
        characters, lines = self._dropped
        self._dropped = characters + len(text), lines + text.count("\n")

    def take(self) -> tuple[str, tuple[int, int], str]:
        """The first part; (characters, lines) that were dropped after it; and the rest."""
        with self._lock:
            self._make_block()
            taken = self._first, self._dropped, "".join(self._blocks)
            self._first, self._dropped = "", (0, 0)
            self._blocks.clear()
        return taken


class ConsoleCapture:
    r"""Captures what this process prints, for one run.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> capture = ConsoleCapture()
    >>> capture.open(folder)
    >>> print("one line")
    one line
    >>> capture.close()
    >>> (folder / "console.log").read_text()
    'one line\n'
    """

    def __init__(self) -> None:
        self.why_off: str | None = None
        """Why nothing more is captured, in words; None while it is."""
        self._printed = PrintedText()
        self._writer: ConsoleWriter | None = None
        self._stop_listening: Callable[[], None] = lambda: None
        self._has_begun = False
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._write_lock = threading.Lock()
        self._committed_at = time.monotonic()
        self._process = os.getpid()

    def begin(self) -> ConsoleCapture:
        """Capture from now on, in memory until `open`; returns itself."""
        self._stop_listening = listen(self._printed.add)
        self._has_begun = True
        return self

    def open(self, run_dir: Path) -> None:
        """Write into the files of this run directory; begin, unless that has happened."""
        if not self._has_begun:
            self.begin()
        try:
            self._writer = ConsoleWriter(run_dir)
        except (MidstepError, OSError) as error:
            self._give_up(error)
            return
        atexit.register(self.close)
        self._thread = threading.Thread(target=self._run, name="midstep-console", daemon=True)
        self._thread.start()

    def end(self) -> int | None:
        """Bytes printed so far; None if nothing is captured. At a boundary of the loop.

        What waits is written, unless the thread is writing: the loop must not wait for a disk.
        """
        writer = self._writer
        if writer is None:
            return None
        if self._write_lock.acquire(blocking=False):
            try:
                self._guarded(lambda: self._write_printed(writer, commits=True))
            finally:
                self._write_lock.release()
        return writer.offset

    def add_traceback(self, text: str) -> None:
        """Add the traceback that ends the run: the interpreter prints it after the capture ends."""
        self.flush()
        if self._writer is not None:
            # A progress bar may be unfinished.
            self._printed.add(f"\n{text}" if self._writer.is_in_line else text)

    def flush(self) -> None:
        """Write everything that was printed, also the line in progress."""
        self._write(commits=True)

    def close(self) -> None:
        """Write the rest and capture nothing more; a second call changes nothing."""
        if self._process != os.getpid():
            return  # a forked child
        self._stop_listening()
        self._is_over.set()
        atexit.unregister(self.close)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSE_S)
        self._write(commits=True)
        writer, self._writer = self._writer, None
        if writer is not None:
            self._guarded(writer.close)
        self._printed = PrintedText()

    def _run(self) -> None:
        while not self._is_over.wait(WRITE_EVERY_S):
            is_due = time.monotonic() - self._committed_at >= COMMIT_EVERY_S
            self._write(commits=is_due)

    def _write(self, *, commits: bool) -> None:
        writer = self._writer
        if writer is not None:
            with self._write_lock:
                self._guarded(lambda: self._write_printed(writer, commits=commits))

    def _write_printed(self, writer: ConsoleWriter, *, commits: bool) -> None:
        first, dropped, rest = self._printed.take()
        writer.write(first)
        if dropped[0]:
            writer.skip(*dropped)
        writer.write(rest)
        if commits:
            self._committed_at = time.monotonic()
            writer.commit_line()

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - a full disk or a fault of ours: prints go on
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Capture nothing more, and say so in one line."""
        if self.why_off is not None:
            return
        self._writer, self.why_off = None, str(error)
        self._stop_listening()
        self._is_over.set()
        self._printed = PrintedText()
        if not sys.is_finalizing():
            print_notice(f"the console is not captured any more: {error}")
