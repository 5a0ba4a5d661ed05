"""Control a demo from its terminal: keys and signals become commands of the run."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from midstep.cli.output.screen import Screen
    from midstep.cli.output.status_line import Status
    from midstep.control import DebugController
    from midstep.control.command_record import Who


class KeyReader:
    """A context manager that calls `on_key` for each key pressed in the terminal.

    Without a terminal on stdin it does nothing.

    Args:
        on_key: called with one character, from the thread of the reader.
        descriptor: the file descriptor to read; stdin when left out.
    """

    def __init__(self, on_key: Callable[[str], None], *, descriptor: int | None = None) -> None:
        self._on_key = on_key
        self._input = _stdin() if descriptor is None else descriptor
        self._saved: list[Any] | None = None
        self._wake: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    @property
    def active(self) -> bool:
        """Whether keys are being read."""
        return self._thread is not None

    def __enter__(self) -> Self:
        if self._input is None or not os.isatty(self._input) or not _is_foreground(self._input):
            return self
        import termios
        import tty

        self._saved = termios.tcgetattr(self._input)
        # cbreak, not raw: Ctrl-C stays a signal, and line ends of the output stay as they are.
        tty.setcbreak(self._input)
        # `select` in the thread also waits for this pipe, so that `__exit__` can end it.
        self._wake = os.pipe()
        self._thread = threading.Thread(
            target=self._read, args=(self._input, self._wake[0]), name="midstep-keys", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None or self._wake is None:
            return
        os.write(self._wake[1], b"x")
        self._thread.join()
        self._thread = None
        for end in self._wake:
            os.close(end)
        self.restore()

    def restore(self) -> None:
        """Restore the settings of the terminal. May be called twice and from a signal handler."""
        if self._saved is None or self._input is None:
            return
        import termios

        saved, self._saved = self._saved, None
        try:
            termios.tcsetattr(self._input, termios.TCSADRAIN, saved)
        except termios.error:
            return  # the terminal was closed, so there is nothing to restore

    def _read(self, terminal: int, wake: int) -> None:
        while True:
            ready, _, _ = select.select([terminal, wake], [], [])
            if wake in ready:
                return
            # 32: a pasted text or an arrow key arrives as several bytes.
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


def _is_foreground(descriptor: int) -> bool:
    """Whether this process is in the foreground; a read in the background would stop it."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False


class TerminalControls:
    """Turns keys and signals into commands of the run.

    Args:
        screen: the terminal.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.leaving = threading.Event()
        """Set once the user wants to leave."""
        self.keys: KeyReader | None = None
        self.status: Status | None = None
        self._controller: DebugController | None = None

    @contextmanager
    def control(self, controller: DebugController, *, paused: bool) -> Iterator[None]:
        """Control a run inside the block. A stop requested before it is sent to the run now."""
        self._controller = controller
        if paused:
            self._submit(controller, "pause", who="cli")
        if self.leaving.is_set():
            self._submit(controller, "stop", who="system")
        with KeyReader(self.press) as self.keys:
            yield

    @property
    def has_keys(self) -> bool:
        """Whether keys are being read from a terminal."""
        return self.keys is not None and self.keys.active

    def stop(self, cause: str) -> None:
        """Stop the run at its next step boundary, and leave then."""
        self.leaving.set()
        controller = self._controller
        if controller is not None:
            self._note(f"{cause}: stopping after this step; repeat it to end at once")
            self._submit(controller, "stop", who="system")

    def restore_terminal(self) -> None:
        """Restore the terminal, right before a second signal ends the process."""
        if self.keys is not None:
            self.keys.restore()
        self.screen.show_cursor(show=True)

    def press(self, key: str) -> None:
        """Execute the command of a key."""
        controller = self._controller
        if controller is None:
            return
        if key == " ":
            self._submit(controller, "resume" if controller.is_paused else "pause")
        elif key == "s":
            self._submit(controller, "step")
        elif key == "q":
            self.leaving.set()
            self._submit(controller, "stop")

    def _submit(self, controller: DebugController, name: str, who: Who = "terminal") -> None:
        """Submit a command without waiting for it. A refusal is shown."""
        from midstep.control import Command

        future = controller.submit(Command(name=name, who=who))
        future.add_done_callback(self._show_refusal)

    def _show_refusal(self, future: Future[Any]) -> None:
        refusal = future.exception()
        if refusal is not None:
            self._note(str(refusal))

    def _note(self, text: str) -> None:
        status = self.status
        if status is not None:
            status.note(text)
