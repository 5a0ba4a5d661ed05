"""Commands that move the training themselves: only while it stands, one at a time, in order."""

from __future__ import annotations

import threading

import pytest
import torch

from midstep.control import Command, CommandDefinition, DebugController
from midstep.control.capture.subscriptions import Need
from midstep.core.commands.catalog import StepPayload
from midstep.core.commands.definition import NoPayload
from midstep.core.errors import ControlError
from tests.control.loop import PATIENCE_S, Loop, running, until


def offer_back(controller: DebugController, loop: Loop) -> None:
    def go(payload: StepPayload) -> dict[str, int]:
        loop.made -= payload.n
        controller.boundary.move_to(loop.made)
        return {"step": loop.made}

    controller.queue.register(
        CommandDefinition(
            name="back", payload=StepPayload, help="", needs_pause=True, moves_training=True
        ),
        go,
    )


def ask(controller: DebugController, name: str, **payload: int):
    return controller.submit(Command(name=name, payload=payload))


def test_back_moves_the_count_and_the_next_step_goes_on_from_there():
    controller = DebugController()
    controller.pause()
    with running(controller) as loop:
        offer_back(controller, loop)
        ask(controller, "step", n=5).result(PATIENCE_S)
        assert ask(controller, "back", n=3).result(PATIENCE_S) == {"step": 2}
        assert controller.get_state()["step"] == 2
        assert ask(controller, "step", n=1).result(PATIENCE_S) == {"step": 3}


def test_back_is_refused_while_running():
    controller = DebugController()
    with running(controller) as loop:
        offer_back(controller, loop)
        with pytest.raises(ControlError, match="pause it first"):
            ask(controller, "back").result(PATIENCE_S)


def test_without_a_loop_its_thread_carries_out_what_else_needs_a_parked_run():
    controller, loop = DebugController(), Loop(DebugController())
    loop.made = 5
    offer_back(controller, loop)
    controller.boundary.move_to(5)
    assert controller.boundary.run_now(Command(name="back", payload={"n": 2})).result(0) == {
        "step": 3
    }
    with pytest.raises(ControlError, match="pause it first"):  # from elsewhere, for a loop to come
        ask(controller, "back").result(0)


def test_back_is_refused_while_steps_are_left_to_make():
    controller, inside, go = DebugController(), threading.Event(), threading.Event()

    def body(_step: int) -> None:
        inside.set()
        go.wait(PATIENCE_S)

    controller.pause()
    with running(controller, body) as loop:
        offer_back(controller, loop)
        steps = ask(controller, "step", n=2)
        inside.wait(PATIENCE_S)
        back = ask(controller, "back")
        go.set()
        with pytest.raises(ControlError, match="wait for them, or pause it"):
            back.result(PATIENCE_S)
        assert steps.result(PATIENCE_S) == {"step": 2}


def test_back_behind_a_pause_that_was_cancelled_is_refused():
    controller, inside, go = DebugController(), threading.Event(), threading.Event()

    def body(_step: int) -> None:
        inside.set()
        go.wait(PATIENCE_S)

    with running(controller, body) as loop:
        offer_back(controller, loop)
        inside.wait(PATIENCE_S)
        pause = Command(name="pause")
        controller.submit(pause)
        back = ask(controller, "back")
        assert controller.queue.cancel(pause.id)
        go.set()
        with pytest.raises(ControlError, match="pause it first"):
            back.result(PATIENCE_S)


def test_another_command_that_runs_is_named_and_the_state_says_rewinding():
    controller, go = DebugController(), threading.Event()

    def wait(_payload: NoPayload):
        yield 0.5
        go.wait(PATIENCE_S)
        yield 1.0

    controller.pause()
    with running(controller) as loop:
        offer_back(controller, loop)
        controller.queue.register(CommandDefinition(name="scan", payload=NoPayload, help=""), wait)
        scan = ask(controller, "scan")
        until(lambda: controller.get_state()["state"] == "busy", controller)
        with pytest.raises(ControlError, match="busy with scan"):
            ask(controller, "back").result(PATIENCE_S)
        go.set()
        scan.result(PATIENCE_S)
        seen: list[str] = []
        controller.sinks.subscribe(lambda: seen.append(controller.get_state()["state"]))
        ask(controller, "step", n=2).result(PATIENCE_S)
        ask(controller, "back").result(PATIENCE_S)
        assert "rewinding" in seen


def test_without_anybody_who_keeps_snapshots_the_reason_is_told():
    told = DebugController().status.get_rewind()
    assert not told["available"]
    assert "keeps no snapshots" in told["reason"]


def test_captures_of_steps_that_were_taken_back_are_forgotten():
    controller = DebugController()

    def body(step: int) -> None:
        controller.capture_step_data("ids", [step])
        controller.capture_batch([1.0], 0.5, step)

    controller.pause()
    with running(controller, body) as loop:
        offer_back(controller, loop)
        ask(controller, "step", n=3).result(PATIENCE_S)
        assert controller.get_state()["batch_step"] == 2
        ask(controller, "back", n=2).result(PATIENCE_S)
        state = controller.get_state()
        assert (state["has_batch"], state["step_data_keys"], state["loss"]) == (False, [], None)


def test_back_never_shows_the_batch_of_an_older_step():
    controller = DebugController(clock=iter(range(10**6)).__next__)

    def body(step: int) -> None:
        controller.capture_batch(torch.full((4, 2), float(step)), 1.0, step)

    controller.pause()
    with (
        controller.captures.viewer(Need(kind="batch", first=0, count=2)),
        running(controller, body) as loop,
    ):
        offer_back(controller, loop)
        ask(controller, "run_until", step=3).result(PATIENCE_S)
        until(lambda: (s := controller.get_state())["step"] == 3 and s["parked"], controller)
        ask(controller, "step", n=2).result(PATIENCE_S)
        assert controller.get_state()["batch_step"] == 4
        ask(controller, "back", n=1).result(PATIENCE_S)
        state = controller.get_state()
        assert (state["step"], state["has_batch"]) == (4, False)
