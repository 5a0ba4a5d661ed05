"""`back` under attach says whether the repeated steps are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from midstep.facts import FactsReader
from tests.checkers.neutral import wait_until
from tests.live.resumable import Resumable
from tests.live.test_attach import parked_at, series
from tests.live.test_back import ask, never_due
from tests.live.trainer import in_thread

if TYPE_CHECKING:
    import torch


def answer_of_back(training: Resumable, n: int) -> dict[str, Any]:
    """Train five steps and go back `n`, repeating from the beginning of the epoch."""
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        never_due(attached._loop._engine.rewind.ring)
        control.run_until(step=5)
        wait_until(control, parked_at(5))
        answer = ask(control, "back", n=n)
        wait_until(control, parked_at(5 - n))
        control.step(n)
        state = wait_until(control, parked_at(5))
        assert state["repeated"] is not None
    return dict(answer)


def test_repeated_steps_that_are_the_same_are_exact(tmp_path, capsys):
    answer = answer_of_back(Resumable(tmp_path), n=2)
    assert "batch counter" not in capsys.readouterr().err  # this loop has none
    assert (answer["step"], answer["exact"], answer["verdict"]) == (3, True, "exact")
    assert answer["text"].startswith("exact over 3 repeated steps: ids 3, lr 3, loss 3")
    assert answer["first_difference"] is None


@pytest.mark.parametrize("repeat", [False, True], ids=["from the ring", "by repeating"])
def test_going_back_shows_the_rate_of_that_step_again(tmp_path, repeat):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        if repeat:
            never_due(attached._loop._engine.rewind.ring)
        control.run_until(step=3)
        wait_until(control, parked_at(3))
        ask(control, "set_hparams", lr=0.5)
        control.step(2)
        assert wait_until(control, parked_at(5))["lr"] == 0.5
        ask(control, "back", n=3)
        state = wait_until(control, parked_at(2))
        assert state["lr"] == training.optimizer.param_groups[0]["lr"] == 1e-2


class Drifting(Resumable):
    """Each forward pass is larger than the one before, by a counter that is in no state."""

    def __init__(self, save_dir: Any) -> None:
        super().__init__(save_dir)
        self.calls = 0
        self.model.register_forward_hook(self._drift)

    def _drift(self, _model: Any, _given: Any, output: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return output * (1 + self.calls / 100)


def test_a_counter_in_no_state_makes_it_not_exact(tmp_path):
    answer = answer_of_back(Drifting(tmp_path), n=2)
    assert (answer["exact"], answer["verdict"]) == (False, "differs")
    assert answer["first_difference"] == {"step": 1, "what": "loss"}
    assert "something that is in no state has moved" in answer["text"]


def test_rows_have_the_rate_that_was_used_and_checksums(tmp_path):
    training = Resumable(tmp_path)
    used: list[float] = []
    training.optimizer.register_step_pre_hook(lambda o, *_: used.append(o.param_groups[0]["lr"]))
    with training.attach() as run:
        training.train(run)
    assert series(run.dir, "lr") == (list(range(1, len(used) + 1)), used)
    assert len(set(series(run.dir, "ids_checksum")[1])) == len(used)
    assert 16 in series(run.dir, "weights_checksum")[0]
    assert not [name for name in FactsReader(run.dir).names if "checksum" in name]
