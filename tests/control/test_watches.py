from __future__ import annotations

import pytest
import torch

from midstep.control import Command, DebugController
from midstep.control.watches import EXACT_POINTS, Trajectory
from midstep.core.errors import ConfigError
from tests.control.loop import PATIENCE_S, running, until


def watched_loop(weight: torch.Tensor) -> tuple[DebugController, object]:
    controller = DebugController()
    controller.add_source("weight", lambda: weight)
    generator = torch.Generator().manual_seed(0)

    def body(step: int) -> None:
        rates = torch.arange(weight.shape[0]) / 100
        controller.capture_step_data("bcl_metrics", {"win_rate": rates, "note": "text"})
        weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)

    return controller, body


def test_points_equal_a_direct_computation_and_count_the_steps() -> None:
    weight = torch.randn(64, 9, generator=torch.Generator().manual_seed(1))
    start = weight.clone()
    controller, body = watched_loop(weight)
    controller.pause()
    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        controller.set_watches([0, 15, 31, 47, 63])
        controller.submit(Command(name="step", payload={"n": 20})).result(PATIENCE_S)
        paths = controller.get_trajectories()
        assert {feature: len(points) for feature, points in paths.items()} == dict.fromkeys(
            [0, 15, 31, 47, 63], 20
        )
        assert [point["step"] for point in paths[15]] == list(range(1, 21))
        last = paths[15][-1]
        expected = torch.cosine_similarity(weight[15].double(), start[15].double(), dim=0)
        assert last["weight_cos_to_init"] == pytest.approx(float(expected), abs=1e-12)
        assert last["win_rate"] == pytest.approx(0.15)
        pair = controller.get_pairwise()[15, 31][-1]
        direct = torch.cosine_similarity(weight[15].double(), weight[31].double(), dim=0)
        assert pair == {"step": 20, "cos": pytest.approx(float(direct), abs=1e-12)}


def test_a_removed_watch_keeps_its_line_until_cleared_and_a_new_one_starts_fresh() -> None:
    controller, body = watched_loop(torch.randn(8, 4))
    controller.pause()
    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        controller.add_watch(0)
        controller.submit(Command(name="step", payload={"n": 3})).result(PATIENCE_S)
        controller.remove_watch(0)
        controller.add_watch(5)
        controller.submit(Command(name="step", payload={"n": 2})).result(PATIENCE_S)
        assert {k: len(v) for k, v in controller.get_trajectories().items()} == {0: 3, 5: 2}
        controller.clear_trajectories()
        controller.submit(Command(name="step", payload={"n": 1})).result(PATIENCE_S)
        assert {k: len(v) for k, v in controller.get_trajectories().items()} == {5: 1}


def test_a_watch_set_before_the_first_step_starts_from_the_untrained_row() -> None:
    weight = torch.eye(3)
    controller = DebugController()
    controller.add_source("weight", lambda: weight)
    controller.add_watch(0)
    controller.capture_batch(None, 0.0, 0)
    weight[0] = torch.tensor([0.0, 1.0, 0.0])
    controller.wait_if_paused()
    assert controller.get_trajectories()[0] == [{"step": 1, "weight_cos_to_init": 0.0}]


def test_what_cannot_be_watched_is_refused() -> None:
    controller = DebugController()
    with pytest.raises(ConfigError, match="no source"):
        controller.add_watch(0)
    controller.add_source("weight", lambda: torch.zeros(3, 2))
    for feature, says in ((3, "has 3 rows"), (-1, "0 or more"), (True, "0 or more")):
        with pytest.raises(ConfigError, match=says):
            controller.add_watch(feature)
    with pytest.raises(ConfigError, match="no source 'bias'; there are weight"):
        controller.add_watch(0, source="bias")
    assert controller.get_watched() == []


def test_a_source_that_raises_ends_the_watch_and_not_the_training() -> None:
    state = {"ok": True}

    def read() -> torch.Tensor:
        if not state["ok"]:
            raise RuntimeError("freed")
        return torch.zeros(3, 2)

    controller = DebugController()
    controller.add_source("weight", read)
    controller.add_watch(1)
    state["ok"] = False
    for _ in range(3):
        assert controller.wait_if_paused()
    assert controller.get_watched() == []
    assert "RuntimeError: freed" in controller.get_state()["reason"]


def test_beyond_ten_thousand_points_first_last_and_extremes_are_kept() -> None:
    path = Trajectory()
    for step in range(1, 3 * EXACT_POINTS):
        value = 100.0 if step == 4321 else -100.0 if step == 5432 else step % 7
        path.append({"step": step, "value": value})
    steps = {point["step"] for point in path.points}
    assert len(path.points) <= EXACT_POINTS
    assert {1, 3 * EXACT_POINTS - 1, 4321, 5432} <= steps
    assert [point["step"] for point in path.points] == sorted(steps)
