from __future__ import annotations

import math
import tracemalloc

import numpy
import pytest
import torch

from midstep.control import Command, DebugController, Panel
from midstep.control.watches.trajectory import EXACT_POINTS, Trajectory
from midstep.control.watches.watches import TrackedRows
from midstep.core.errors import ConfigError
from tests.control.loop import PATIENCE_S, running, until


def watched_loop(weight: torch.Tensor) -> tuple[DebugController, object]:
    controller = DebugController()
    controller.watches.add_source("weight", lambda: weight)
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
        controller.watches.replace([0, 15, 31, 47, 63])
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
        pair = controller.watches.pairwise()[15, 31][-1]
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
    controller.watches.add_source("weight", lambda: weight)
    controller.add_watch(0)
    controller.capture_batch(None, 0.0, 0)
    weight[0] = torch.tensor([0.0, 1.0, 0.0])
    controller.wait_if_paused()
    assert controller.get_trajectories()[0] == [{"step": 1, "weight_cos_to_init": 0.0}]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_rows_of_any_type_and_shape_are_followed(kind: torch.dtype) -> None:
    weight = torch.eye(4, requires_grad=False).reshape(4, 2, 2).to(kind)
    vector = torch.tensor([1, 0, 3], dtype=kind)
    controller = DebugController()
    controller.watches.add_source("weight", lambda: weight)
    controller.watches.add_source("vector", lambda: vector)
    controller.watches.replace([0, 3])
    controller.watches.replace([1, 2], "vector")
    controller.wait_if_paused()
    assert controller.get_trajectories("weight")[3] == [{"step": 1, "weight_cos_to_init": 1.0}]
    assert controller.watches.pairwise("weight") == {(0, 3): [{"step": 1, "cos": 0.0}]}
    assert controller.get_trajectories("vector")[1] == [{"step": 1, "weight_cos_to_init": 0.0}]


def test_what_cannot_be_watched_is_refused() -> None:
    controller = DebugController()
    with pytest.raises(ConfigError, match="no source"):
        controller.add_watch(0)
    controller.watches.add_source("weight", lambda: torch.zeros(3, 2))
    for feature, says in ((3, "has 3 rows"), (-1, "at least 0"), (True, "at least 0")):
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
    controller.watches.add_source("weight", read)
    controller.add_watch(1)
    state["ok"] = False
    for _ in range(3):
        assert controller.wait_if_paused()
    assert controller.get_watched() == []
    assert "RuntimeError: freed" in controller.get_state()["reason"]


def test_rows_of_two_tensors_are_followed_side_by_side() -> None:
    a, b = torch.eye(4), torch.eye(8)
    controller = DebugController()
    controller.watches.add_source("a", lambda: a)
    controller.watches.add_source("b", lambda: b)
    controller.add_watch(3, source="a")
    controller.add_watch(5, source="b")
    controller.wait_if_paused()
    assert controller.watches.watched_by_source() == {"a": [3], "b": [5]}
    assert (controller.watches.source, controller.get_watched()) == ("b", [5])
    assert [list(controller.get_trajectories(name)) for name in ("a", "b")] == [[3], [5]]
    controller.watches.replace([6, 7], "b")
    assert controller.watches.watched_by_source() == {"a": [3], "b": [6, 7]}
    controller.wait_if_paused()
    assert list(controller.get_trajectories("b")) == [5, 6, 7]
    assert list(controller.watches.pairwise("b")) == [(6, 7)]
    exported = controller.watches.export()
    assert (exported["source"], exported["watched"], exported["exact"]) == ("b", [6, 7], True)
    assert [point["step"] for point in exported["others"]["a"]["trajectories"]["3"]] == [1, 2]


def test_a_list_without_a_source_is_the_default_ones_and_none_at_all_ends_every_watch() -> None:
    controller = DebugController()
    for name in ("a", "b"):
        controller.watches.add_source(name, lambda: torch.eye(4))
    controller.add_watch(1, source="b")
    controller.watches.replace([2])
    assert controller.watches.watched_by_source() == {"b": [1], "a": [2]}
    controller.remove_watch(1)
    assert controller.watches.watched_by_source() == {"a": [2]}
    controller.add_watch(1, source="b")
    controller.watches.replace([])
    assert controller.watches.watched_by_source() == {}
    assert not controller.captures.wants_data


def test_step_data_can_be_watched_and_a_step_without_it_has_no_point() -> None:
    controller = DebugController()
    weight = torch.eye(3)
    controller.capture_step_data("pull", {"targets": weight, "rates": torch.ones(3)})
    controller.capture_step_data("plain", weight)
    assert controller.watches.sources == ["pull.targets", "plain"]
    controller.add_watch(0, source="pull.targets")
    controller.add_watch(2, source="plain")
    controller.wait_if_paused()
    assert controller.watches.sources == ["pull.targets", "plain"]
    controller.wait_if_paused()
    weight[0] = torch.tensor([0.0, 1.0, 0.0])
    controller.capture_step_data("pull", {"targets": weight[:1]})
    controller.wait_if_paused()
    assert controller.get_trajectories("pull.targets")[0] == [
        {"step": 1, "weight_cos_to_init": 1.0, "rates": 1.0},
        {"step": 3, "weight_cos_to_init": 0.0},
    ]
    assert [point["step"] for point in controller.get_trajectories("plain")[2]] == [1]
    assert controller.get_state()["reason"] is None


def test_a_parked_loop_waits_quietly_for_step_data_that_is_watched() -> None:
    controller = DebugController()
    controller.capture_step_data("acts", torch.eye(3))
    controller.wait_if_paused()
    controller.pause()
    with running(controller):
        until(lambda: controller.is_parked, controller)
        controller.add_watch(1, source="acts")
        controller.submit(Command(name="step", payload={"n": 2})).result(PATIENCE_S)
        assert not controller._state.watches.has_new_rows
        assert controller.get_trajectories("acts") == {}


def test_a_source_may_ask_the_controller() -> None:
    controller = DebugController()
    weight = torch.eye(3)

    def read() -> torch.Tensor:
        controller.get_state()
        controller.get_trajectories()
        return weight

    controller.watches.add_source("weight", read)
    controller.pause()
    with running(controller):
        until(lambda: controller.is_parked, controller)
        controller.watches.replace([0, 1])
        controller.submit(Command(name="step", payload={"n": 3})).result(PATIENCE_S)
        assert {row: len(path) for row, path in controller.get_trajectories().items()} == {
            0: 3,
            1: 3,
        }


def test_more_than_sixty_four_rows_in_all_are_refused() -> None:
    controller = DebugController()
    for name in ("a", "b"):
        controller.watches.add_source(name, lambda: torch.zeros(100, 2))
    controller.watches.replace(range(60), "a")
    controller.watches.replace(range(4), "b")
    with pytest.raises(ConfigError, match="65 watched rows are too many: the limit is 64"):
        controller.add_watch(4, source="b")
    assert controller.get_watched("b") == [0, 1, 2, 3]
    controller.watches.replace([], "a")
    controller.watches.replace(range(64), "b")
    assert len(controller.get_watched()) == 64


def test_what_is_kept_of_removed_watches_is_bounded_until_cleared() -> None:
    controller = DebugController()
    controller.watches.add_source("weight", lambda: torch.zeros(1000, 2))
    for row in range(256):
        controller.watches.replace([row])
        controller.wait_if_paused()
    with pytest.raises(ConfigError, match="clear_trajectories"):
        controller.watches.replace([256])
    controller.clear_trajectories()
    controller.watches.replace([256])
    controller.wait_if_paused()
    assert list(controller.get_trajectories()) == [256]


def test_metrics_that_are_no_numbers_or_have_another_length_are_left_out() -> None:
    controller = DebugController()
    controller.watches.add_source("weight", lambda: torch.eye(3))
    controller.add_watch(1)
    odd = {
        "step": torch.zeros(3),
        "words": numpy.array(["a", "b", "c"]),
        "other": torch.zeros(4),
        "ghost": torch.zeros(3, device="meta"),
        "gap": torch.tensor([0.0, math.nan, 0.0]),
        "limit": torch.tensor([0.0, math.inf, 0.0]),
        7: torch.zeros(3),
    }
    controller.capture_step_data("metrics", odd)
    controller.wait_if_paused()
    (point,) = controller.get_trajectories()[1]
    assert point == {"step": 1, "weight_cos_to_init": 1.0, "limit": math.inf}


def test_metrics_that_a_hint_tells_of_other_rows_are_left_out() -> None:
    controller = DebugController()
    controller.watches.add_source("head", lambda: torch.eye(4))
    of_head = Panel(kind="table", source="head")
    of_others = Panel(kind="table", source="embedding")
    of_layers = Panel(kind="table", label="name")

    def body(step: int) -> None:
        controller.capture_step_data("own", {"rate": torch.arange(4.0)}, panel=of_head)
        controller.capture_step_data("others", {"norm": torch.ones(4)}, panel=of_others)
        names = ["a", "b", "c", "d"]
        layers = {"name": names, "ratio": torch.ones(4)}
        controller.capture_step_data("layers", layers, panel=of_layers)
        controller.capture_step_data("plain", {"share": torch.ones(4)})

    controller.pause()
    with running(controller, body):
        until(lambda: controller.is_parked, controller)
        controller.watches.replace([2])
        controller.submit(Command(name="step", payload={"n": 1})).result(PATIENCE_S)
        [point] = controller.get_trajectories()[2]
        assert point == {"step": 1, "weight_cos_to_init": 1.0, "rate": 2.0, "share": 1.0}


def test_beyond_ten_thousand_points_first_last_and_extremes_are_kept() -> None:
    path = Trajectory("value")
    last = 3 * EXACT_POINTS - 1
    for step in range(1, last + 1):
        value = 100.0 if step == 4321 else -100.0 if step == 5432 else step % 7
        path.append(step, value, {"late": -step} if step >= 4000 else {})
        if step == EXACT_POINTS:
            assert list(path.steps) == list(range(1, EXACT_POINTS + 1))
    steps = [point["step"] for point in path.points()]
    assert len(steps) <= EXACT_POINTS
    assert {1, last, 4000, 4321, 5432} <= set(steps)
    assert steps == sorted(set(steps))
    assert path.points()[0] == {"step": 1, "value": 1.0}
    assert path.points()[-1] == {"step": last, "value": last % 7, "late": -last}


@pytest.mark.parametrize("points", [2, 3, 4, 7, 1000])
def test_a_copy_is_thinned_to_what_was_asked_for(points: int) -> None:
    path = Trajectory("value")
    for step in range(5000):
        path.append(step, 9.0 if step == 1234 else -9.0 if step == 4321 else 0.0, {"more": step})
    thin = path.copy()
    assert thin.thin(points)
    steps = list(thin.steps)
    assert 2 <= len(steps) <= points
    assert (steps[0], steps[-1], len(path)) == (0, 4999, 5000)
    assert points < 4 or {1234, 4321} <= set(steps)
    assert not thin.thin(points)


def test_a_million_points_keep_first_last_and_extremes_within_the_cap() -> None:
    path = Trajectory("cos")
    for step in range(1, 10**6 + 1):
        path.append(step, -1.0 if step == 333_333 else 1.0 if step == 654_321 else 0.0)
    assert len(path) <= EXACT_POINTS
    assert {1, 333_333, 654_321, 10**6} <= set(path.steps)


def test_five_watches_stay_under_50_mb_whatever_the_number_of_steps() -> None:
    rows, metrics = [0, 15, 31, 47, 63], {f"metric {i}": [0.5] * 5 for i in range(9)}
    followed = TrackedRows(source="weight", watched=rows)
    spike = 7_654
    steps = 3 * EXACT_POINTS  # thinned four times; beyond the cap nothing grows
    tracemalloc.start()
    try:
        for step in range(1, steps + 1):
            height = 1.0 if step == spike else 0.0
            followed.add(step, rows, [height] * 5, [[height] * 5] * 5, metrics if step % 10 else {})
        used, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    series = [*followed.rows.values(), *followed.pairs.values()]
    assert len(series) == 15
    for path in series:
        assert len(path) <= EXACT_POINTS
        assert {1, spike, steps} <= set(path.steps)
    # The most that the cap allows, whatever the number of steps: 8 bytes a number, an eighth spare.
    most = sum(EXACT_POINTS * 8 * 1.125 * len(path.columns()) for path in series)
    assert used <= most < 50e6
    assert peak < 50e6
