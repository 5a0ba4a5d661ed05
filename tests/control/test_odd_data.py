"""Whatever a loop hands over, looking at it never ends the training."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest
import torch

from midstep.control import DebugController
from midstep.control.breakpoints.conditions import StepView, make_condition
from midstep.control.capture.captured_data import as_float, clone
from tests.control.loop import running, until

BATCH = torch.ones(2, 3)


class Stubborn(list):
    """A list that cannot be built from its items."""

    def __init__(self, first, second):
        super().__init__([first, second])


class Unreadable:
    """What looks like an array and is none."""

    def __array__(self):
        raise ValueError("no values here")

    def copy(self):
        raise MemoryError("no room")


ODD_SCALARS = {
    "complex": torch.tensor(1j),
    "text": np.array("x"),
    "an integer beyond all floats": 10**400,
    "no values": torch.tensor(1.0, device="meta"),
    "several": torch.ones(3),
    "nothing": None,
}
ODD_BATCHES = {
    "ids that are names": {"sample_ids": ["a", "b"]},
    "no losses": {"losses": torch.empty(0)},
    "fewer ids than losses": {"losses": [1.0] * 20 + [90.0], "sample_ids": [1]},
    "complex losses": {"losses": torch.tensor([1j, 2])},
    "losses near the largest float": {"losses": [1.7e308, 1.7e308, 1.0]},
    "one number as losses": {"losses": 3.0},
    "a container of its own kind": {"batch": Stubborn(BATCH, BATCH)},
    "what cannot be copied": {"batch": Unreadable(), "labels": Unreadable()},
    "a complex loss": {"loss": torch.tensor(1j)},
}


@pytest.mark.parametrize("value", ODD_SCALARS.values(), ids=ODD_SCALARS.keys())
def test_a_scalar_that_is_no_number_stops_neither_breakpoint_nor_loop(value):
    controller = DebugController()
    controller.add_breakpoint("metric", name="odd", op=">", value=0)
    controller.add_breakpoint("expression", expression="odd > 0 or odd ** 0.5 != 0")
    assert as_float(value) is None
    controller.boundary.log({"odd": value})
    assert controller.wait_if_paused()


@pytest.mark.parametrize("given", ODD_BATCHES.values(), ids=ODD_BATCHES.keys())
def test_an_odd_batch_is_stopped_at_and_looked_at_like_any_other(given):
    controller = DebugController()
    controller.add_breakpoint("sample", ids=[7])
    controller.add_breakpoint("loss_z")
    controller.add_breakpoint("step", step=2)
    settings = {"batch": BATCH, "loss": 0.5} | given
    with running(controller, lambda step: controller.capture_batch(step=step, **settings)):
        until(lambda: controller.is_parked, controller)
        assert controller.get_state()["breakpoint"]["condition"] == "step = 2"
        assert controller.get_batch()["step"] == 1


def test_what_cannot_be_copied_is_shown_as_a_line_that_says_why():
    controller = DebugController()
    with running(controller, lambda _: controller.capture_step_data("odd", Unreadable())):
        controller.pause()
        until(lambda: controller.is_parked, controller)
        assert controller.get_step_data("odd") == "<cannot be copied: MemoryError: no room>"


def test_step_data_pushed_before_a_pause_in_the_same_step_is_cloned_too():
    controller, weight = DebugController(), torch.zeros(2)

    def body(_step):
        controller.capture_step_data("weight", weight)
        controller.pause()

    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        weight.fill_(7)
        assert controller.get_step_data("weight").tolist() == [0, 0]
        assert controller.captures.reader.shown().values["weight"].tolist() == [0, 0]


def test_a_container_that_holds_itself_many_times_is_cloned_once():
    held: dict = {"weight": torch.zeros(2)}
    held["again"] = [held] * 1000
    copy = clone(held)
    assert copy["again"][999] is copy
    held["weight"].fill_(7)
    assert copy["weight"].tolist() == [0, 0]


def test_named_tuples_keep_their_names():
    Pair = collections.namedtuple("Pair", "x y")
    copy = clone(Pair(torch.zeros(1), "label"))
    assert (copy.x.tolist(), copy.y) == ([0.0], "label")


def test_a_gradient_norm_that_raises_is_asked_once():
    controller, asked = DebugController(), []

    def broken():
        asked.append(1)
        raise RuntimeError("no gradients")

    controller.boundary.set_gradient_norm(broken)
    controller.add_breakpoint("grad_norm", limit=1)
    for step in range(3):
        controller.capture_batch(BATCH, 0.5, step)
        assert controller.wait_if_paused()
    assert len(asked) == 1


def test_a_loss_that_explodes_trips_the_z_score_and_is_no_error():
    condition = make_condition("loss_z", {"limit": 4.0, "window": 8})
    losses = [1.0, 1.1] * 4 + [1e200, -1e300, 1.7e308, math.inf, math.nan, 1.7e308] + [1.0] * 20
    views = [StepView(step=step, scalars={"loss": loss}) for step, loss in enumerate(losses)]
    hits = [view.step for view in views if condition.check(view) is not None]
    assert hits[0] == 8
    assert max(hits) < 14
