"""Step data that is computed by who reads it, from clones."""

from __future__ import annotations

import threading

import torch

from midstep.control import Command, DebugController
from midstep.control.capture.captured_data import clone
from midstep.control.capture.deferred_columns import DeferredColumns
from tests.control.loop import PATIENCE_S, running


def test_columns_are_computed_once_by_the_first_who_reads() -> None:
    readers: list[str] = []

    def work(weight: torch.Tensor) -> dict[str, torch.Tensor]:
        readers.append(threading.current_thread().name)
        return {"norm": weight.norm(dim=1)}

    controller = DebugController()
    data = DeferredColumns(work, weight=torch.ones(2, 4))
    controller.pause()
    with running(controller, lambda _step: controller.capture_step_data("features", data)):
        ask(controller, "step")  # at the first the loop looks once what can be watched
        readers.clear()
        ask(controller, "step")
        found = controller.get_step_data("features")
        assert readers == []
        assert found["norm"].tolist() == [2.0, 2.0]
        assert list(found) == ["norm"]
        assert readers == [threading.current_thread().name]


def ask(controller: DebugController, name: str) -> None:
    controller.submit(Command(name=name)).result(PATIENCE_S)


def test_a_clone_keeps_what_the_inputs_were() -> None:
    weight = torch.zeros(3)
    held = clone({"features": DeferredColumns(lambda weight: {"same": weight}, weight=weight)})
    weight += 1
    assert held["features"]["same"].tolist() == [0.0, 0.0, 0.0]


def test_work_that_raises_tells_who_reads() -> None:
    broken = DeferredColumns(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert broken["problem"].startswith("<cannot be computed: ZeroDivisionError")
    assert len(broken) == 1
