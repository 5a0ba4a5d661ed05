"""The recipe bcl: its four conditions, what it shows and records, and that looking is free."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep import Command, Run
from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import CONDITIONS, BclConfig, Condition
from midstep.models.competitive import feature_measures
from midstep.models.competitive.competition import compete, find_neighbours
from tests.control.loop import IN_VIEW


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run(name="bcl", save_dir=tmp_path) as made:
        yield made


def short(condition: Condition = "novelty", **settings: Any) -> BclConfig:
    return BclConfig(
        **{"condition": condition, "steps": 12, "hidden": 16, "health_every": 5, **settings}
    )


def health_facts(run: Run) -> list[dict[str, Any]]:
    events = FactsReader(run.dir).events()
    return [event for event in events if event.get("kind") == "feature_health"]


def after_one_step(run: Run, training: BclTraining) -> dict[str, Any]:
    """Step data of the first step, seen while the run stands behind it."""
    seen: dict[str, Any] = {}
    run.controller.pause()

    def operate() -> None:
        run.controller.submit(Command(name="step")).result(timeout=60)
        seen.update(run.controller.captures.reader.shown().values)
        seen["change"] = run.controller.weight_changes.get()
        run.controller.stop()

    operator = threading.Thread(target=operate)
    operator.start()
    with run.controller.captures.viewer(*IN_VIEW):
        training.train(run)
    operator.join()
    return seen


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_trains_and_records_the_health_of_its_features(
    run: Run, condition: Condition
) -> None:
    training = BclTraining(short(condition))
    result = training.train(run)
    run.finish()
    facts = health_facts(run)
    assert (result.steps, result.condition, result.health.step) == (12, condition, 12)
    assert [fact["step"] for fact in facts] == [5, 10, 12]
    for fact in facts:
        assert fact["moment"] == "on_step"
        assert {len(column) for column in fact["features"].values()} == {16}
    assert set(facts[0]["metrics"]) == {
        "l1",
        "psnr",
        "weight_cosine",
        "effective_rank",
        "dead",
        "winners",
        "unreachable",
        "gini",
        "velocity",
    }
    logged = FactsReader(run.dir).series(["effective_rank"])["effective_rank"]
    assert list(logged.low) == [fact["metrics"]["effective_rank"] for fact in facts]


def test_conditions_differ_only_in_what_is_attached() -> None:
    starts = [BclTraining(short(condition, steps=1)) for condition in CONDITIONS]
    weights = [training.model.encoder.weight for training in starts]
    assert all(torch.equal(weights[0], weight) for weight in weights)
    assert [training.bcl is None for training in starts] == [
        condition == "control" for condition in CONDITIONS
    ]


def test_health_at_the_end_is_that_of_the_model(run: Run) -> None:
    training = BclTraining(short(steps=7))
    start = training.model.encoder.weight.detach().clone()
    found = training.train(run).health
    weight = training.model.encoder.weight.detach()
    assert found.metrics["effective_rank"] == feature_measures.effective_rank(weight)
    assert found.metrics["weight_cosine"] == feature_measures.mean_pairwise_cosine(weight)
    assert found.metrics["l1"] == pytest.approx(training.validate()["l1"])
    first = health_facts(run)[0]
    assert first["features"]["velocity"][0] > 0
    assert found.metrics["velocity"] > 0
    assert not torch.equal(weight, start)


def test_finished_run_holds_what_scatter_heatmap_and_history_show(run: Run) -> None:
    training = BclTraining(short(steps=10))
    training.train(run)
    run.finish()
    first, last = health_facts(run)
    columns = {"win_rate", "feature_novelty", "grad_magnitude", "som_magnitude", "velocity"}
    assert set(first["features"]) == set(last["features"]) == columns
    assert [len(row) for row in last["weight_cosines"]] == list(range(16, 0, -1))
    unit = torch.nn.functional.normalize(training.model.encoder.weight.detach(), dim=1)
    for place, row in enumerate(last["weight_cosines"]):
        torch.testing.assert_close(
            torch.tensor(row), (unit @ unit[place])[place:], rtol=0, atol=6e-4
        )


def test_many_features_are_kept_as_blocks(run: Run) -> None:
    training = BclTraining(short(steps=5, hidden=100))
    training.train(run)
    (fact,) = health_facts(run)
    assert len(fact["weight_cosines"]) == 64
    assert len(fact["features"]["win_rate"]) == 100


def test_last_examination_is_not_repeated_at_the_end(run: Run) -> None:
    found = BclTraining(short(steps=10)).train(run).health
    assert found.as_fact()["metrics"] == health_facts(run)[-1]["metrics"]
    assert found.metrics["velocity"] > 0


def test_parked_step_shows_metrics_tensors_and_what_moved_the_weights(run: Run) -> None:
    training = BclTraining(short())
    data = after_one_step(run, training)
    assert list(data) == ["bcl_metrics", "bcl_tensors", "change"]
    metrics, tensors = data["bcl_metrics"], data["bcl_tensors"]
    assert tensors["rank_score"].shape == (128, 16)
    torch.testing.assert_close(metrics["grad_magnitude"].sum(), tensors["grad_mask"].sum())
    change = data["change"]
    assert change.step == 1
    assert torch.equal(change.before, BclTraining(short()).model.encoder.weight)
    assert torch.equal(change.after, training.model.encoder.weight)
    assert torch.equal(change.extra_delta, tensors["som_delta"])
    assert torch.equal(change.metrics["win_rate"], metrics["win_rate"])
    by_optimizer = change.after - change.before - tensors["som_delta"]
    assert by_optimizer.abs().max() <= 1.01e-3  # the first step of Adam is lr at most
    assert run.controller.watches.sources[0] == "encoder.weight"


def test_control_shows_the_model_without_a_competition(run: Run) -> None:
    training = BclTraining(short("control"))
    data = after_one_step(run, training)
    change = data.pop("change")
    assert list(data) == ["features"]
    assert change.extra_delta is None
    assert {"win_rate", "mean_activation"} <= set(change.metrics)
    captured = run.controller.get_batch()
    assert captured is not None
    with torch.no_grad():
        features = training.model.encode(captured["batch"])
    torch.testing.assert_close(data["features"]["mean_activation"], features.mean(dim=0))
    torch.testing.assert_close(
        data["features"]["fraction_active"], (features > 0).float().mean(dim=0)
    )


def test_health_of_the_control_tells_that_nothing_pulls_and_all_of_the_gradient_passes(
    run: Run,
) -> None:
    training = BclTraining(short("control", steps=5))
    training.train(run)
    (fact,) = health_facts(run)
    assert set(fact["features"]["som_magnitude"]) == {0.0}
    assert set(fact["features"]["grad_magnitude"]) == {float(fact["samples"])}


def test_win_rates_of_the_health_are_those_of_a_direct_competition(run: Run) -> None:
    training = BclTraining(short(steps=5))
    training.train(run)
    (fact,) = health_facts(run)
    encoder, images = training.model.encoder, training.validation.images.flatten(1)
    config = training.recipe.competition
    with torch.no_grad():
        neighbours = find_neighbours(encoder.weight, config.neighborhood_k)
        won = compete(encoder(images), neighbours, config.temperature)
    torch.testing.assert_close(
        torch.tensor(fact["features"]["win_rate"]), won.win_rate_D, rtol=1e-4, atol=1e-6
    )


def test_nothing_is_kept_when_nobody_watches(run: Run) -> None:
    training = BclTraining(short())
    training.train(run)
    assert training.bcl is not None
    assert training.bcl.last_tensors() == {}
    assert run.controller.list_step_data_keys() == []


@pytest.mark.parametrize("condition", CONDITIONS)
def test_looking_changes_no_bit(tmp_path: Path, condition: Condition) -> None:
    ends = []
    for watched in (False, True):
        training = BclTraining(short(condition, recompute_every=4))
        with Run(name="bcl", save_dir=tmp_path / str(watched), model=training.model) as run:
            if watched:
                with run.controller.captures.viewer(*IN_VIEW):
                    run.controller.watches.replace([3, 7])
                    training.train(run)
                points = run.controller.get_trajectories()[3]
                assert len(points) == 12
                assert all("win_rate" in point for point in points)
                assert condition == "control" or "som_magnitude" in points[0]
            else:
                training.train(run)
        ends.append(training.model.state_dict())
    for name, weight in ends[0].items():
        assert torch.equal(weight, ends[1][name]), name


def test_competition_that_raises_is_reported_once_and_training_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = BclTraining(short())

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr("midstep.models.competitive.bcl_step.compete", broken)
    assert training.train(run).steps == 12
    events = FactsReader(run.dir).events()
    told = [event for event in events if event.get("kind") == "hook_off"]
    assert [event["why"] for event in told] == ["ZeroDivisionError: no such luck"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"condition": "none"}, "condition must be one of novelty, control"),
        ({"steps": 0}, "steps must be a number from 1"),
        ({"hidden": 0}, "hidden must be a whole number of at least 1"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"temperature": -1.0}, "temperature must be above 0"),
        ({"health_every": 0}, "health_every must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BclConfig(**settings)
