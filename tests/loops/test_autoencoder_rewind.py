"""The demo taken back: every condition repeats its steps bit for bit, its own state included."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep import Command, Run
from midstep.facts import FactsReader
from midstep.loops.bcl import BclResult, BclTraining
from midstep.loops.bcl_config import CONDITIONS, BclConfig, Condition

SETTINGS: dict[str, Any] = {"hidden": 16, "health_every": 5, "recompute_every": 4}


class Operator:
    """Asks a run that stands, from a thread of its own; an error in there fails the test."""

    def __init__(self, run: Run, training: BclTraining) -> None:
        self._run, self.training = run, training
        self.error: BaseException | None = None

    def ask(self, name: str, **payload: Any) -> Any:
        command = Command(name=name, payload=payload)
        return self._run.controller.submit(command).result(timeout=60)

    def state(self) -> dict[str, torch.Tensor]:
        """Everything of the training that has bits, by name."""
        model, optimizer, bcl = (
            self.training.model,
            self.training.optimizer.state_dict()["state"],
            self.training.bcl,
        )
        found = {name: value.clone() for name, value in model.state_dict().items()}
        for place, moments in optimizer.items():
            found |= {f"{place}.{name}": value.clone() for name, value in moments.items()}
        if bcl is not None:
            kept = bcl.state_dict()
            found["neighbours"] = kept.pop("neighbours")
            found["counters"] = torch.tensor(list(kept.values()))
        return found

    def watch(self, work: Callable[[Operator], None]) -> None:
        try:
            work(self)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self.error = error
        finally:
            self._run.controller.stop()


def operate(
    folder: Path, condition: Condition, work: Callable[[Operator], None], **settings: Any
) -> tuple[Run, BclResult]:
    """A training that stands before its first step, while `work` asks it."""
    training = BclTraining(BclConfig(**{**SETTINGS, "condition": condition, **settings}))
    with Run(name="bcl", save_dir=folder) as run:
        run.controller.pause()
        operator = Operator(run, training)
        thread = threading.Thread(target=operator.watch, args=(work,))
        thread.start()
        result = training.train(run)
        thread.join()
        if operator.error is not None:
            raise operator.error
    return run, result


def assert_same(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> None:
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]), name


@pytest.mark.parametrize("condition", ["control", "novelty", "balance"])
def test_seven_steps_back_and_forward_again_are_the_same_bits(
    tmp_path: Path, condition: Condition
) -> None:
    def work(operator: Operator) -> None:
        operator.ask("step", n=41)  # past the end of an epoch and its validation
        there = operator.state()
        told = operator.ask("back", n=7)
        assert (told["step"], told["exact"], told["epoch"]) == (34, True, 0)
        assert not torch.equal(operator.state()["encoder.weight"], there["encoder.weight"])
        operator.ask("step", n=7)
        assert_same(there, operator.state())

    run, _ = operate(tmp_path, condition, work)
    events = FactsReader(run.dir).events()
    taken = [each for each in events if each.get("kind") == "rewind"]
    assert [(each["from_step"], each["step"]) for each in taken] == [(41, 34)]


def test_examinations_after_a_rewind_are_those_of_before(tmp_path: Path) -> None:
    """Each is made against the weights of the one before, so going back takes that along."""

    def work(operator: Operator) -> None:
        operator.ask("step", n=12)
        operator.ask("back", n=4)
        operator.ask("step", n=4)

    run, _ = operate(tmp_path, "novelty", work)
    events = FactsReader(run.dir).events()
    found = [each for each in events if each.get("kind") == "feature_health"]
    assert [each["step"] for each in found] == [5, 10, 10, 12]
    assert found[1]["metrics"] == found[2]["metrics"]
    assert found[1]["features"] == found[2]["features"]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_certificate_is_exact(tmp_path: Path, condition: Condition) -> None:
    def work(operator: Operator) -> None:
        operator.ask("step", n=33)
        there = operator.state()
        told = operator.ask("determinism_health", steps=6)  # past an epoch's end
        assert told["data"]["exact"], told["text"]
        assert told["data"]["steps"] == 6
        assert_same(there, operator.state())

    operate(tmp_path, condition, work)


def test_a_checkpoint_brings_the_competition_back_too(tmp_path: Path) -> None:
    def work(operator: Operator) -> None:
        operator.ask("step", n=6)
        kept, saved = operator.state(), operator.ask("save_checkpoint")
        assert saved["step"] == 6
        operator.ask("step", n=5)
        there = operator.state()
        assert operator.ask("load_checkpoint")["step"] == 6
        assert_same(kept, operator.state())
        operator.ask("step", n=5)
        assert_same(there, operator.state())

    operate(tmp_path, "rescue", work)


def test_another_learning_rate_gives_another_ending_and_another_examination(
    tmp_path: Path,
) -> None:
    def work(operator: Operator) -> None:
        operator.ask("step", n=5)
        first = operator.training._monitor.last
        operator.ask("back", n=3)
        assert operator.ask("set_hparams", lr=0.1) == {"old": {"lr": [1e-3]}}
        operator.ask("step", n=3)
        again = operator.training._monitor.last
        assert first is not None
        assert again is not None
        assert (first.step, again.step) == (5, 5)
        assert again.metrics["velocity"] > first.metrics["velocity"]

    operate(tmp_path, "novelty", work)


def test_a_stop_right_after_going_back_tells_no_loss_of_a_step_taken_back(tmp_path: Path) -> None:
    def work(operator: Operator) -> None:
        operator.ask("step", n=4)
        operator.ask("back", n=2)

    result = operate(tmp_path, "control", work)[1]
    assert (result.steps, result.stopped, result.loss) == (2, True, None)
