"""Who sits at the terminal of a demo: keys and signals become commands of its run."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from midstep.cli.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midstep.cli.screen import Screen
    from midstep.cli.status import Status
    from midstep.control import DebugController
    from midstep.control.commands import Who

__all__ = ["Seat"]


class Seat:
    """Who sits at the terminal: keys and signals become commands of the run.

    Args:
        screen: where answers are shown.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.leaving = threading.Event()
        """Set once the user wants out."""
        self.keys: Keys | None = None
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
        with Keys(self.press) as self.keys:
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
