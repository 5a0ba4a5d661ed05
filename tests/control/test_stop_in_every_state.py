"""A stop, and so a signal, ends the loop from whatever state it is in."""

from __future__ import annotations

import threading

import pytest

from midstep.control import Command, CommandDefinition, DebugController
from midstep.core.commands.definition import NoPayload
from tests.control.loop import PATIENCE_S, running, until


def in_slices(_payload):
    while True:
        yield 0.5


STATES = {
    "running": lambda controller: None,
    "paused": lambda controller: controller.pause(),
    "stepping": lambda controller: (controller.pause(), controller.step(10**9)),
    "run until": lambda controller: controller.run_until(10**9),
    "busy": lambda controller: controller.submit(Command(name="scan")),
    "held by a fault": lambda controller: controller.boundary.hold(
        "the disk is full", lambda: False
    ),
    "at a breakpoint": lambda controller: controller.add_breakpoint("every", n=1),
}


@pytest.mark.parametrize("bring", STATES.values(), ids=STATES.keys())
def test_stop_ends_the_loop(bring):
    controller = DebugController()
    controller.queue.register(CommandDefinition(name="scan", payload=NoPayload, help=""), in_slices)
    with running(controller) as loop:
        until(lambda: loop.made > 0, controller)
        bring(controller)
        controller.stop()
        loop.join()
    assert controller.get_state()["state"] == "stopped"


def test_stop_lets_a_parked_failure_end():
    controller, over = DebugController(), threading.Event()

    def fail():
        controller.boundary.fail("out of memory", park=True)
        over.set()

    training = threading.Thread(target=fail, name="training")
    training.start()
    until(lambda: controller.is_parked, controller)
    controller.stop()
    assert over.wait(PATIENCE_S)
    training.join()
    assert controller.get_state()["state"] == "failed"
