"""Who sits at the terminal of a demo: keys and signals become commands of its run."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midstep.cli.output.screen import Screen
    from midstep.cli.output.status_line import Status
    from midstep.control import DebugController
    from midstep.control.command_record import Who


class KeyReader:
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


class TerminalControls:
    """Who sits at the terminal: keys and signals become commands of the run.

    Args:
        screen: where answers are shown.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.leaving = threading.Event()
        """Set once the user wants out."""
        self.keys: KeyReader | None = None
        self.status: Status | None = None
        self._controller: DebugController | None = None

    @contextmanager
    def taken(self, controller: DebugController, *, paused: bool) -> Iterator[None]:
        """Sit at a run, keys in hand; a wish to leave that came before it is passed on now."""
        self._controller = controller
        if paused:
            self._ask(controller, "pause", who="cli")
        if self.leaving.is_set():
            self._ask(controller, "stop", who="system")
        with KeyReader(self.press) as self.keys:
            yield

    @property
    def has_keys(self) -> bool:
        """Whether there is a keyboard that is read."""
        return self.keys is not None and self.keys.active

    def stop(self, cause: str) -> None:
        """Bring the run to its end at the next boundary, and leave then."""
        self.leaving.set()
        controller = self._controller
        if controller is not None:
            self._note(f"{cause}: stopping at the next boundary; once more ends at once")
            self._ask(controller, "stop", who="system")

    def restore_terminal(self) -> None:
        """Right before the process ends at a second signal."""
        if self.keys is not None:
            self.keys.restore()
        self.screen.show_cursor(show=True)

    def press(self, key: str) -> None:
        """What a key means."""
        controller = self._controller
        if controller is None:
            return
        if key == " ":
            self._ask(controller, "resume" if controller.is_paused else "pause")
        elif key == "s":
            self._ask(controller, "step")
        elif key == "q":
            self.leaving.set()
            self._ask(controller, "stop")

    def _ask(self, controller: DebugController, name: str, who: Who = "terminal") -> None:
        """Submit a command; nothing waits for the answer, a refusal is shown."""
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
