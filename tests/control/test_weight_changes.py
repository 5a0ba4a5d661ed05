"""What a step did to the weights is cloned while somebody may look, and not otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from midstep.control import Command, DebugController
from midstep.control.capture import weight_changes as module
from midstep.control.capture.subscriptions import Need
from midstep.core.errors import ConfigError, ControlError
from tests.control.loop import IN_VIEW, until

PATIENCE_S = 30.0


class Counted(torch.nn.Parameter):
    """A weight that counts its clones."""

    clones = 0

    def detach(self) -> Tensor:  # type: ignore[override]
        type(self).clones += 1
        return super().detach()


@pytest.fixture
def clones() -> Callable[[], int]:
    Counted.clones = 0
    return lambda: Counted.clones


class Loop:
    """A loop in a thread of its own that adds 1 to every weight at each step."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **weights: Tensor) -> None:
        self.controller, self.weights = DebugController(clock=clock), weights
        for name in weights:
            self.controller.watches.add_source(name, lambda name=name: self.weights[name])
        self._thread = threading.Thread(target=self._train, name="training")

    def _train(self) -> None:
        going = self.controller.boundary.enter()
        while going:
            for weight in self.weights.values():
                weight.data += 1
            self.controller.capture_step_data("told", {"delta": torch.ones(2, 3) / 4})
            going = self.controller.wait_if_paused()

    def ask(self, name: str, **payload: int) -> None:
        self.controller.submit(Command(name=name, payload=payload)).result(PATIENCE_S)

    def __enter__(self) -> Loop:
        parked = self.controller.submit(Command(name="pause"))
        self._thread.start()
        parked.result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.stop()
        self._thread.join(PATIENCE_S)


def plain() -> Tensor:
    return torch.zeros(2, 3)


def test_stepped_loop_has_the_weights_before_and_after() -> None:
    with Loop(weight=plain()) as loop:
        loop.controller.weight_changes.declare_extra_update("weight", delta_key="told.delta")
        for step in (1, 2, 3):
            loop.ask("step")
            change = loop.controller.weight_changes.get()
            assert change.step == step
            assert torch.equal(change.before, torch.full((2, 3), step - 1.0))
            assert torch.equal(change.after, torch.full((2, 3), float(step)))
            assert torch.equal(change.extra_delta, torch.ones(2, 3) / 4)


def test_what_was_handed_out_does_not_move_with_the_training() -> None:
    with Loop(weight=plain()) as loop:
        loop.ask("step")
        change = loop.controller.weight_changes.get()
        loop.ask("step", n=5)
        assert torch.equal(change.after, torch.ones(2, 3))


def test_nothing_is_cloned_while_nobody_watches(clones: Callable[[], int]) -> None:
    controller = DebugController()
    weight = Counted(torch.zeros(2, 3))
    controller.watches.add_source("weight", lambda: weight)
    controller.boundary.enter()
    for _ in range(5):
        controller.wait_if_paused()
    assert clones() == 0
    with controller.captures.viewer(*IN_VIEW):
        for _ in range(5):
            controller.wait_if_paused()
        assert clones() > 0
        assert controller.weight_changes.get(patience_s=0).source == "weight"
    controller.wait_if_paused()
    with pytest.raises(ControlError):  # what was held is gone
        controller.weight_changes.get(patience_s=0)


def test_function_pushed_as_step_data_is_called_only_for_steps_that_are_shown() -> None:
    controller, calls = DebugController(), []

    def measured() -> dict[str, float]:
        calls.append(controller.boundary.finished_steps)
        return {"rate": 0.5}

    for _ in range(3):
        controller.capture_step_data("told", measured)
        controller.wait_if_paused()
    assert calls == []
    controller.watches.add_source("weight", plain)
    controller.add_watch(0)
    controller.capture_step_data("told", measured)
    assert len(calls) == 1
    assert controller.get_step_data("told") == {"rate": 0.5}


def test_function_that_raises_is_told_in_its_place() -> None:
    controller = DebugController()

    def broken() -> None:
        raise ZeroDivisionError("gone")

    with controller.captures.viewer(*IN_VIEW):
        controller.boundary.enter()
        controller.capture_step_data("told", broken)
        controller.wait_if_paused()
        shown = controller.captures.reader.shown().values
        assert shown == {"told": "<cannot be computed: ZeroDivisionError: gone>"}


def test_weights_of_a_standing_loop_are_there_before_any_step() -> None:
    with Loop(weight=plain()) as loop:
        assert torch.equal(loop.controller.weight_changes.get(whole=False).after, plain())
        with pytest.raises(ControlError, match="No step has run yet"):
            loop.controller.weight_changes.get()


def test_pause_out_of_nowhere_says_to_make_a_step() -> None:
    with Loop(weight=plain()) as loop:
        loop.ask("resume")
        loop.ask("pause")
        if loop.controller.boundary.finished_steps > 0:
            with pytest.raises(ControlError, match="Make one step"):
                loop.controller.weight_changes.get()
        loop.ask("step")
        change = loop.controller.weight_changes.get()
        assert float((change.after - change.before).mean()) == 1.0


def test_what_a_step_of_another_timeline_did_is_not_shown() -> None:
    with Loop(weight=plain(), clock=lambda: 0.0) as loop, loop.controller.captures.viewer(*IN_VIEW):
        loop.ask("step", n=5)
        loop.ask("resume")
        until(lambda: loop.controller.boundary.finished_steps > 30, loop.controller)
        loop.ask("pause")
        assert loop.controller.weight_changes.get().note is not None
        loop.controller.boundary.move_to(3)
        with pytest.raises(ControlError, match="Make one step"):
            loop.controller.weight_changes.get(patience_s=5.0)


def test_running_loop_clones_in_the_steps_that_are_shown_alone(clones: Callable[[], int]) -> None:
    now = [0.0]
    controller = DebugController(clock=lambda: now[0])
    weight = Counted(torch.zeros(2, 3))
    controller.watches.add_source("weight", lambda: weight)
    with controller.captures.viewer(Need(kind="forces")):
        controller.boundary.enter()
        for shown in range(1, 6):
            for _ in range(50):
                controller.wait_if_paused()
            assert clones() == 2 * shown  # before and after
            controller.weight_changes.get()  # so that the next is worth a capture
            now[0] += 0.11


def test_running_loop_is_looked_at_by_many_at_once() -> None:
    with Loop(first=plain(), second=torch.zeros(4, 5)) as loop:
        loop.ask("resume")
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(loop.controller.weight_changes.get, name, patience_s=PATIENCE_S)
                for name in ("first", "second") * 8
            ]
            found = [each.result(PATIENCE_S) for each in asked]
        assert [change.source for change in found] == ["first", "second"] * 8
        assert all(float((each.after - each.before).mean()) == 1.0 for each in found)
        assert loop.controller.captures.viewers == 0


def test_tensor_beyond_the_budget_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch, clones: Callable[[], int]
) -> None:
    monkeypatch.setattr(module, "PARKED_BYTES", 100)
    with Loop(large=Counted(torch.zeros(30, 3)), small=plain()) as loop:
        loop.ask("step")
        with pytest.raises(ControlError, match="large has 90 elements"):
            loop.controller.weight_changes.get("large")
        assert clones() == 0
        assert loop.controller.weight_changes.get("small").step == 1


def test_large_tensor_is_not_cloned_at_full_speed_but_when_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RUNNING_BYTES", 10)
    monkeypatch.setattr(module, "SHOWN_BYTES", 10)
    with Loop(weight=plain()) as loop:
        loop.ask("resume")
        with pytest.raises(ControlError, match="a single step may clone more"):
            loop.controller.weight_changes.get(patience_s=0.5)
        loop.ask("pause")
        loop.ask("step")
        assert loop.controller.weight_changes.get().before is not None


def test_source_that_raises_is_told_and_training_goes_on() -> None:
    with Loop(weight=plain()) as loop:
        healthy = [True]

        def broken() -> Tensor:
            if not healthy[0] and threading.current_thread().name == "training":
                raise ZeroDivisionError("gone")
            return plain()

        loop.controller.watches.add_source("broken", broken)
        healthy[0] = False
        loop.ask("step")
        with pytest.raises(ControlError, match="ZeroDivisionError: gone"):
            loop.controller.weight_changes.get("broken")
        assert loop.controller.weight_changes.get("weight").step == 1


def test_only_tensors_with_rows_are_offered() -> None:
    with Loop(
        bias=torch.zeros(3), count=torch.zeros(2, 2, dtype=torch.int64), weight=plain()
    ) as loop:
        assert loop.controller.weight_changes.sources == ["weight"]
        with pytest.raises(ControlError, match="bias is 1-dimensional"):
            loop.controller.weight_changes.get("bias")
        with pytest.raises(ConfigError, match="no tensor 'other'; there are weight"):
            loop.controller.weight_changes.get("other")


def test_finished_run_says_that_it_is_over() -> None:
    with Loop(weight=plain()) as loop:
        loop.ask("stop")
    loop.controller.boundary.finish()
    with pytest.raises(ControlError, match="The run is stopped"):
        loop.controller.weight_changes.get()
