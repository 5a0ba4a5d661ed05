from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from midstep.control import Command, DebugController
from midstep.control.breakpoints.conditions import CONDITIONS, make_condition
from midstep.control.breakpoints.recent_steps import RecentSteps
from midstep.control.breakpoints.rolling_statistics import RollingSpread
from midstep.core.errors import ConfigError
from tests.control.loop import PATIENCE_S, running, until
from tests.control.test_controller import Ledger

VALID = {
    "step": {"step": 7},
    "every": {"n": 5},
    "loss_nonfinite": {},
    "loss_z": {"limit": 4.0, "window": 20},
    "grad_norm": {"limit": 10.0},
    "metric": {"name": "accuracy", "op": ">=", "value": 0.5},
    "sample": {"ids": [3, 12]},
    "expression": {"expression": "loss > 2 and step > 3"},
    "rule": {"rule": "dead_relus", "limit": 0.25},
}


def train(controller: DebugController, losses: list[float], **more: object) -> int:
    """Steps made before the loop would park; the gate is read at each boundary."""
    for index, loss in enumerate(losses):
        controller.capture_batch(
            torch.zeros(4, 2), loss, index, sample_ids=[4 * index + k for k in range(4)], **more
        )
        controller.boundary.log({"accuracy": index / 10, "grad_norm": float(index)})
        controller.wait_if_paused()
    return len(losses)


@pytest.mark.parametrize(
    ("kind", "settings", "losses", "stops_at"),
    [
        ("step", {"step": 7}, [1.0] * 20, 7),
        ("every", {"n": 5}, [1.0] * 20, 5),
        ("loss_nonfinite", {}, [1.0, 1.0, math.nan, 1.0], 3),
        ("loss_nonfinite", {}, [1.0, math.inf, 1.0], 2),
        ("loss_z", {"limit": 4.0, "window": 20}, [1.0, 1.1] * 6 + [5.0, 1.0], 13),
        ("grad_norm", {"limit": 3.5}, [1.0] * 20, 5),
        ("metric", {"name": "accuracy", "op": ">=", "value": 0.5}, [1.0] * 20, 6),
        ("sample", {"ids": [9]}, [1.0] * 20, 3),
        ("expression", {"expression": "loss > 2 and step > 3"}, [3.0, 1, 1, 1, 3.0, 1], 5),
    ],
)
def test_each_condition_parks_the_loop_at_the_step_where_it_holds_with_its_evidence(
    kind: str, settings: dict[str, object], losses: list[float], stops_at: int
) -> None:
    controller, ledger = DebugController(), Ledger()
    controller.sinks.add(ledger)
    made = controller.add_breakpoint(kind, **settings)

    def body(index: int) -> None:
        ids = [4 * index + k for k in range(4)]
        batch = torch.full((4, 2), float(index))
        controller.capture_batch(batch, losses[index], index, sample_ids=ids)
        batch.fill_(-1.0)
        controller.boundary.log({"accuracy": index / 10, "grad_norm": float(index)})

    with running(controller, body, steps=len(losses)):
        until(lambda: controller.is_parked, controller)
        state = controller.get_state()
        assert state["step"] == stops_at
        assert state["breakpoint"]["breakpoint"] == made.id
        assert state["breakpoint"]["step"] == stops_at
        kept = controller.get_batch()
        assert kept is not None
        assert kept["step"] == stops_at - 1
        assert (made.hits, made.hit_steps) == (1, [stops_at])
        last = controller.queue.latest()[-1]
        assert (last.command.name, last.command.who, last.status) == ("pause", "breakpoint", "done")
        assert any(event.get("kind") == "breakpoint" for event in ledger.events)
        controller.breakpoints.enable(made.id, enabled=False)


def test_a_hit_cuts_a_granted_step_short_and_clears_with_the_next_step() -> None:
    controller = DebugController()
    controller.add_breakpoint("step", step=3)
    controller.pause()
    with running(controller) as loop:
        long = controller.submit(Command(name="step", payload={"n": 100}))
        assert long.result(PATIENCE_S) == {"step": 3}
        assert controller.get_state()["breakpoint"] is not None
        controller.submit(Command(name="step")).result(PATIENCE_S)
        assert (loop.made, controller.get_state()["breakpoint"]) == (4, None)


def test_evidence_names_the_samples_that_carry_the_loss() -> None:
    controller = DebugController()
    controller.add_breakpoint("expression", expression="loss > 0")
    losses = torch.tensor([0.1] * 30 + [9.0, 8.0])

    def body(index: int) -> None:
        controller.capture_batch(
            torch.zeros(32, 4), losses.mean(), index, losses=losses, sample_ids=range(100, 132)
        )

    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        evidence = controller.get_state()["breakpoint"]
    assert evidence["samples"] == [130, 131]
    assert evidence["note"] == "2 of 32 samples carry 85 % of the loss"
    assert (evidence["limit"], evidence["value"]) == (0.0, pytest.approx(float(losses.mean())))


def test_with_a_breakpoint_armed_the_batch_is_held_and_cloned_only_on_a_hit() -> None:
    controller = DebugController()
    controller.add_breakpoint("step", step=10**9)
    train(controller, [1.0] * 5)
    assert controller.get_batch() is None


def test_the_gradient_norm_is_taken_only_when_a_breakpoint_reads_it() -> None:
    controller, taken = DebugController(), []
    controller.sinks.add(Ledger())
    controller.boundary.set_gradient_norm(lambda: taken.append(1) or 5.0)
    controller.capture_batch(None, 1.0, 0)
    assert taken == []
    controller.add_breakpoint("grad_norm", limit=10.0)
    controller.capture_batch(None, 1.0, 0)
    assert taken == [1]


def test_a_name_that_no_step_logs_is_told_once_a_step_was_asked() -> None:
    controller = DebugController()
    made = controller.add_breakpoint("expression", expression="lss > 2 or loss > 1e9")
    assert made.describe()["missing"] == []
    train(controller, [1.0] * 2)
    assert made.describe()["missing"] == ["lss"]
    controller.boundary.log({"lss": 1.0})
    train(controller, [1.0])
    assert made.describe()["missing"] == []


def test_a_condition_sees_what_was_measured_between_steps_at_the_next_boundary_once() -> None:
    controller = DebugController()
    made = controller.add_breakpoint("metric", name="val_loss", op=">", value=1.0)

    def body(index: int) -> None:
        if index == 3:
            controller.boundary.log_outside_step({"val_loss": 2.0})

    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        assert (controller.get_state()["step"], made.hits) == (4, 1)
        controller.submit(Command(name="step", payload={"n": 5})).result(PATIENCE_S)
        assert made.hits == 1


def test_a_disabled_or_removed_breakpoint_does_not_stop() -> None:
    controller = DebugController()
    off = controller.add_breakpoint("every", n=1, enabled=False)
    gone = controller.add_breakpoint("every", n=1)
    controller.remove_breakpoint(gone.id)
    train(controller, [1.0] * 5)
    assert (off.hits, [each.id for each in controller.list_breakpoints()]) == (0, [off.id])
    with pytest.raises(ConfigError, match=f"no breakpoint {gone.id}"):
        controller.remove_breakpoint(gone.id)


@pytest.mark.parametrize("kind", CONDITIONS)
def test_every_condition_says_itself_in_words_and_travels_whole(kind: str) -> None:
    condition = make_condition(kind, VALID[kind])
    assert condition.words
    parameters = condition.parameters()
    assert make_condition(parameters.pop("kind"), parameters) == condition


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("nothing", {}, "no condition 'nothing'"),
        ("step", {}, "step"),
        ("step", {"step": -1}, "at least 0"),
        ("step", {"step": True}, "whole number"),
        ("every", {"n": 0}, "at least 1"),
        ("loss_z", {"limit": math.nan}, "finite number"),
        ("loss_z", {"limit": 0}, "above 0"),
        ("loss_z", {"window": 2}, "at least 8"),
        ("grad_norm", {"limit": "10"}, "finite number"),
        ("metric", {"name": "a", "op": "=~", "value": 1}, "op must be one of"),
        ("metric", {"name": "", "op": "<", "value": 1}, "name of a logged scalar"),
        ("sample", {"ids": []}, "at least one"),
        ("step", {"step": 3, "colour": 1}, "no setting 'colour'"),
        ("expression", {"expression": 3}, "must be text"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    kind: str, settings: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        DebugController().add_breakpoint(kind, **settings)


@example([999_999.0, 1_000_000.0, 0.1, 1.0], 2)  # large values that have just left the window
@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 50))
def test_the_rolling_spread_agrees_with_the_plain_formula(values: list[float], window: int) -> None:
    spread = RollingSpread(window)
    for value in values:
        spread.push(value)
    recent = values[-window:]
    scale = max(abs(v) for v in recent) + 1e-12
    assert spread.mean == pytest.approx(statistics.fmean(recent), abs=1e-9 * scale)
    assert spread.std == pytest.approx(statistics.pstdev(recent), abs=1e-6 * scale)


def test_gradient_norms_outlive_the_notes_of_their_steps() -> None:
    recent = RecentSteps()
    for step in range(1, 3001):
        norm = {"grad_norm": float(step)} if step % 100 == 0 else {}
        recent.note(step, {"loss": 1.0, **norm}, samples=4, report=None)
    assert len(recent.notes()) == 64
    assert recent.older_norms() == [float(step) for step in range(1400, 3000, 100)]
    # The run went back: norms of steps that it makes again are of another timeline.
    recent.note(2450, {"loss": 1.0}, samples=4, report=None)
    assert recent.older_norms()[-1] == 2400.0
