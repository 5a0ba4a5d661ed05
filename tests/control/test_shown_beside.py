"""What a command shows while the loop stands is there at once, beside the step's own data."""

from __future__ import annotations

import torch

from midstep.control import Command, CommandDefinition, DebugController
from midstep.control.panels import Panel
from tests.control.loop import PATIENCE_S, running


def ask(controller: DebugController, name: str) -> None:
    controller.submit(Command(name=name)).result(PATIENCE_S)


def test_it_is_shown_with_its_panel_and_gone_in_the_next_step() -> None:
    controller, live = DebugController(), torch.zeros(2)
    panel = Panel(kind="matrix", title="found")

    def look(_payload: object) -> None:
        controller.captures.add_step_data("found", live, panel=panel)

    controller.queue.register(CommandDefinition(name="look", help="Look."), look)
    controller.pause()
    with running(controller, lambda step: controller.capture_step_data("own", step)):
        ask(controller, "step")
        before = controller.captures.reader.shown()
        ask(controller, "look")
        shown = controller.captures.reader.shown()
        live.add_(1)
        assert (shown.step, shown.values["own"]) == (1, 0)
        assert torch.equal(shown.values["found"], torch.zeros(2))
        assert shown.panels == {"found": panel}
        assert controller.get_state()["step_data_keys"] == ["own", "found"]
        # Who reads the step's data meanwhile sees it whole, as it was.
        assert list(before.values) == ["own"]
        ask(controller, "step")
        assert list(controller.captures.reader.shown().values) == ["own"]


def test_a_step_without_data_of_its_own_shows_it_too() -> None:
    controller = DebugController()

    def look(_payload: object) -> None:
        controller.captures.add_step_data("found", 3)

    controller.queue.register(CommandDefinition(name="look", help="Look."), look)
    controller.pause()
    with running(controller):
        ask(controller, "step")
        ask(controller, "look")
        assert controller.captures.reader.shown().values == {"found": 3}


def test_the_state_tells_that_an_entry_was_shown_anew() -> None:
    controller, found = DebugController(), iter(range(9))

    def look(_payload: object) -> None:
        controller.captures.add_step_data("found", next(found))

    controller.queue.register(CommandDefinition(name="look", help="Look."), look)
    controller.pause()
    with running(controller, lambda step: controller.capture_step_data("own", step)):
        seen = []
        for command in ("step", "look", "look", "step", "look"):
            ask(controller, command)
            state = controller.get_state()
            seen.append((state["step_data_step"], state["step_data_additions"]))
        assert seen == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
        assert controller.captures.reader.shown().values["found"] == 2
