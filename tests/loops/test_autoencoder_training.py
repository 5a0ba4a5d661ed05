"""The demo recipe: what it records, and that looking at it changes nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from midstep import Command, Run
from midstep.core.errors import ConfigError
from midstep.data.order.permutation import Order
from midstep.facts import FactsReader
from midstep.loops.autoencoder_training import (
    AutoencoderTraining,
    DigitsDataset,
    TrainingResult,
    squared_error,
)
from midstep.loops.bcl_config import AutoencoderConfig
from tests.control.loop import IN_VIEW


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run(name="demo", save_dir=tmp_path) as made:
        yield made


def rows(config: AutoencoderConfig, count: int) -> Iterator[torch.Tensor]:
    """Which rows of the digits each step is trained on."""
    for epoch in itertools.count():
        order = Order(count, config.seed, epoch)
        yield from order.ids(0, count).split(config.batch_size)


def bare_losses(config: AutoencoderConfig) -> tuple[list[float], AutoencoderTraining]:
    """The same recipe as a plain loop, with no session, no run and no controller around it."""
    demo, losses = AutoencoderTraining(config), []
    for chosen in itertools.islice(rows(config, len(demo.digits)), config.steps):
        images = demo.digits.images[chosen]
        demo.optimizer.zero_grad()
        loss = squared_error(demo.model(images), images).mean()
        torch.autograd.backward(loss)
        demo.optimizer.step()
        losses.append(loss.item())
    return losses, demo


def series(run: Run, name: str) -> list[float]:
    return [float(value) for value in FactsReader(run.dir).series([name])[name].low]


def test_loss_falls_and_every_step_is_recorded(run: Run) -> None:
    demo = AutoencoderTraining(AutoencoderConfig(steps=60))
    result = demo.train(run)
    run.finish()
    losses = series(run, "loss")
    assert len(losses) == len(series(run, "grad_norm")) == 60
    assert losses[-1] < losses[0] / 2
    assert (result.steps, result.stopped) == (60, False)
    assert result.loss == pytest.approx(losses[-1])


def test_epochs_and_validations_are_recorded(run: Run) -> None:
    demo = AutoencoderTraining(AutoencoderConfig(steps=70))
    demo.train(run)
    events = FactsReader(run.dir).events()
    ends = [event for event in events if event["moment"] == "on_epoch_end"]
    validations = [event for event in events if event["moment"] == "on_validation_end"]
    assert [(event["epoch"], event["step"]) for event in ends] == [(0, 36)]  # 1 is not whole
    assert all(event["epoch_time_s"] > 0 and event["max_memory_mib"] > 1 for event in ends)
    assert ends[0]["throughput"] == pytest.approx(4500 / ends[0]["epoch_time_s"])
    assert [(event["epoch"], event["step"]) for event in validations] == [(0, 36), (1, 70)]
    assert validations[1]["val_loss"] < validations[0]["val_loss"]
    assert validations[0]["metrics"]["l1"] > 0
    assert series(run, "val_loss") == [event["val_loss"] for event in validations]


def test_each_epoch_trains_on_every_digit_once(run: Run) -> None:
    demo = AutoencoderTraining(AutoencoderConfig(steps=1, batch_size=1000))
    with demo.session(run) as session:
        loader = session.trainer.parts.train_loader
        ids = [batch["ids"] for batch in loader]
        loader.sampler.set_epoch(1)
        assert not torch.equal(ids[0], next(iter(loader))["ids"])
    assert [len(batch) for batch in ids] == [1000, 1000, 1000, 1000, 500]
    assert torch.equal(torch.cat(ids).sort().values, demo.digits.ids)


def test_a_single_digit_is_read_as_in_a_batch() -> None:
    digits = AutoencoderTraining(AutoencoderConfig(steps=1)).digits
    alone, batch = DigitsDataset(digits)[7], DigitsDataset(digits).__getitems__([3, 7])
    assert all(torch.equal(alone[name], batch[name][1]) for name in ("images", "labels", "ids"))
    assert alone["ids"] == digits.ids[7]


def watched(run: Run, demo: AutoencoderTraining) -> TrainingResult:
    with run.controller.captures.viewer(*IN_VIEW):
        run.controller.watches.replace([3, 17], "encoder.weight")
        return demo.train(run)


def stepped(run: Run, demo: AutoencoderTraining) -> TrainingResult:
    """Start paused, make three single steps, then run to the end."""
    run.controller.pause()

    def operate() -> None:
        for _ in range(3):
            run.controller.step()
        run.controller.resume()

    operator = threading.Thread(target=operate)
    operator.start()
    result = demo.train(run)
    operator.join()
    return result


def under_breakpoints(run: Run, demo: AutoencoderTraining) -> TrainingResult:
    run.controller.add_breakpoint("grad_norm", limit=1e9)
    run.controller.add_breakpoint("loss_z", limit=1e9)
    return demo.train(run)


@pytest.mark.parametrize("look", [watched, stepped, under_breakpoints])
def test_looking_changes_no_bit(
    tmp_path: Path, look: Callable[[Run, AutoencoderTraining], TrainingResult]
) -> None:
    config = AutoencoderConfig(steps=45, seed=7)
    losses, bare = bare_losses(config)
    demo = AutoencoderTraining(config)
    with Run(name="demo", save_dir=tmp_path, model=demo.model) as run:
        look(run, demo)
        run.finish()
        assert series(run, "loss") == losses
    for name, weight in bare.model.state_dict().items():
        assert torch.equal(weight, demo.model.state_dict()[name]), name


def test_stop_before_the_first_step_trains_nothing(run: Run) -> None:
    run.controller.stop()
    result = AutoencoderTraining(AutoencoderConfig(steps=10)).train(run)
    assert (result.steps, result.stopped, result.loss) == (0, True, None)


def test_parked_run_shows_the_batch_it_was_trained_on(run: Run) -> None:
    demo = AutoencoderTraining(AutoencoderConfig(steps=10))
    seen: list[dict[str, object]] = []
    run.controller.pause()

    def operate() -> None:
        run.controller.submit(Command(name="step")).result(timeout=60)
        batch = run.controller.get_batch()
        assert batch is not None
        seen.append(batch)
        seen.append(run.controller.captures.reader.shown().values)
        run.controller.stop()

    operator = threading.Thread(target=operate)
    operator.start()
    demo.train(run)
    operator.join()
    batch, data = seen
    first = next(rows(demo.config, len(demo.digits)))
    assert torch.equal(batch["batch"], demo.digits.images[first])
    assert torch.equal(batch["labels"], demo.digits.labels[first])
    assert torch.equal(batch["sample_ids"], demo.digits.ids[first])
    assert batch["losses"].mean().item() == pytest.approx(float(batch["loss"]))
    assert {len(column) for column in data["layers"].values()} == {4}
    assert {len(column) for column in data["features"].values()} == {64}
    assert (data["layers"]["update_ratio"] > 0).all()


def test_nothing_is_computed_inside_when_nobody_watches(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midstep.loops.autoencoder_training.hidden_units", lambda *_: pytest.fail("no one looks")
    )
    AutoencoderTraining(AutoencoderConfig(steps=5)).train(run)


def test_squared_error_is_that_of_each_sample() -> None:
    pixels, images = torch.tensor([[0.0, 1.0], [1.0, 1.0]]), torch.zeros(2, 1, 1, 2)
    assert squared_error(pixels, images).tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be a number from 1 to"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"hidden": -1}, "hidden must be a whole number of at least 1, got -1"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AutoencoderConfig(**settings)  # type: ignore[arg-type]
