"""A training thread for the tests: counts the steps it makes and stops with its test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from midstep.control import DebugController
from midstep.control.capture.subscriptions import Need

PATIENCE_S = 60.0
IN_VIEW = (Need(kind="batch"), Need(kind="step_data"), Need(kind="forces"))
"""Everything: the whole batch, all step data, the default tensor before and after a step."""


class Loop:
    """Runs `body(step)` until stopped or `steps` are done."""

    def __init__(
        self,
        controller: DebugController,
        body: Callable[[int], None] = lambda _step: None,
        *,
        steps: int = 10**9,
    ) -> None:
        self.controller = controller
        self.made = 0
        self._body, self._steps = body, steps
        self._thread = threading.Thread(target=self._run, name="training")

    def _run(self) -> None:
        going = self.controller.boundary.enter()
        while going and self.made < self._steps:
            self._body(self.made)
            self.made += 1
            going = self.controller.wait_if_paused()
        self.controller.boundary.finish()

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the training thread did not end"


@contextmanager
def running(
    controller: DebugController,
    body: Callable[[int], None] = lambda _step: None,
    *,
    steps: int = 10**9,
) -> Iterator[Loop]:
    loop = Loop(controller, body, steps=steps)
    loop.start()
    try:
        yield loop
    finally:
        controller.stop()
        loop.join()


def until(
    condition: Callable[[], bool], controller: DebugController, patience_s: float = PATIENCE_S
) -> None:
    """Wait for a state, woken by the controller itself; fails after a generous time."""
    changed = threading.Event()
    unsubscribe = controller.sinks.subscribe(changed.set)
    deadline = time.monotonic() + patience_s
    try:
        while not condition():
            assert time.monotonic() < deadline, f"not true; state is {controller.get_state()}"
            changed.wait(0.05)
            changed.clear()
    finally:
        unsubscribe()
