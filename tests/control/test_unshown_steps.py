"""While somebody only looks, nearly every step is passed by: it costs little, and loses nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from midstep.control import Command, DebugController
from midstep.control.boundary import StepBoundary
from tests.control.loop import IN_VIEW, PATIENCE_S, running, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_pausing_in_an_unshown_step_shows_its_data_and_the_change_of_the_last_one_shown() -> None:
    weight = torch.zeros(2, 3)
    controller = DebugController(clock=lambda: 1.0)  # the first step is shown, and then no other
    controller.watches.add_source("weight", lambda: weight)
    controller.weight_changes.declare_extra_update("weight", metrics_key="told")

    def body(step: int) -> None:
        weight.add_(1)
        controller.capture_step_data("told", {"step": step})

    with controller.captures.viewer(*IN_VIEW), running(controller, body):
        until(lambda: controller.boundary.finished_steps > 500, controller)
        controller.submit(Command(name="pause")).result(PATIENCE_S)
        stands_at = controller.boundary.finished_steps
        assert controller.get_step_data("told") == {"step": stands_at - 1}
        weights = controller.weight_changes.get(whole=False)
        assert (weights.step, float(weights.after[0, 0])) == (stands_at, stands_at)
        change = controller.weight_changes.get()
        assert change.step < 100
        assert torch.equal(change.before, torch.full((2, 3), change.step - 1.0))
        assert torch.equal(change.after, torch.full((2, 3), float(change.step)))
        assert change.metrics == {"step": change.step - 1}
        assert f"step {change.step}," in str(change.note)
        assert f"after step {stands_at:,}." in str(change.note)
        controller.submit(Command(name="step")).result(PATIENCE_S)
        stepped = controller.weight_changes.get()
        assert (stepped.step, stepped.note) == (stands_at + 1, None)
        assert torch.equal(stepped.before, torch.full((2, 3), float(stands_at)))


def test_what_was_held_is_dropped_when_the_viewer_leaves() -> None:
    weight = torch.zeros(2, 3)
    controller = DebugController(clock=lambda: 1.0)
    controller.watches.add_source("weight", lambda: weight)
    with running(controller):
        with controller.captures.viewer(*IN_VIEW):
            until(lambda: controller.boundary.finished_steps > 100, controller)
            assert controller.captures.is_observed
        until(lambda: not controller.captures.is_observed, controller)


def test_a_wish_that_comes_while_the_scalars_are_written_is_heard_at_this_boundary() -> None:
    controller = DebugController(clock=lambda: 1.0)
    asked: list[int] = []

    class Disk:
        def log_values(self, step: int, _scalars: object) -> None:
            if step == 50:
                asked.append(step)
                controller.pause()

        def event(self, *_: object, **__: object) -> None: ...

    controller.sinks.add(Disk())
    with (
        controller.captures.viewer(*IN_VIEW),
        running(controller, lambda step: controller.boundary.log({"loss": step})),
    ):
        until(lambda: controller.is_parked, controller)
        assert (asked, controller.boundary.finished_steps) == ([50], 50)


def test_unshown_steps_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"short": 0, "long": 0}
    monkeypatch.setattr(
        StepBoundary, "_pass_unshown", _counted(ways, "short", StepBoundary._pass_unshown)
    )
    monkeypatch.setattr(
        StepBoundary, "_pass_through", _counted(ways, "long", StepBoundary._pass_through)
    )
    controller = DebugController(clock=lambda: 1.0)
    with controller.captures.viewer(*IN_VIEW), running(controller):
        until(lambda: controller.boundary.finished_steps > 300, controller)
        assert ways["short"] > 250 > ways["long"]


def _counted(ways: dict[str, int], way: str, call: Callable[..., bool]) -> Callable[..., bool]:
    def counted(boundary: StepBoundary) -> bool:
        ways[way] += 1
        return call(boundary)

    return counted


def test_a_batch_that_is_kept_is_cloned_once_and_gives_way_to_another() -> None:
    clones: list[str] = []

    class Batch:
        def __init__(self, name: str) -> None:
            self.name = name

        def detach(self) -> Batch:
            return self

        def clone(self) -> Batch:
            clones.append(f"{self.name} {threading.current_thread().name == 'MainThread'}")
            return self

    controller = DebugController()
    with controller.captures.viewer(*IN_VIEW):
        controller.boundary.enter()
        controller.capture_batch(Batch("ours"), 0.5, kept=True)
        controller.wait_if_paused()
        controller.pause()
        controller.capture_batch(Batch("ours"), 0.5, kept=True)
        controller.capture_batch(Batch("theirs"), 0.5)
        controller.stop()
        controller.wait_if_paused()
        batch = controller.get_batch()
    assert batch is not None
    assert batch["batch"].name == "theirs"
    assert clones == ["ours True", "theirs True"]
