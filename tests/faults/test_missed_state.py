"""State that a snapshot once missed, one line of docs/reliability.md each, for both drivers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkers.lives import live, repeated_facts
from tests.checkers.matrix import SECONDS, Case, assert_not_silent, training

SAVED: dict[str, dict[str, Any]] = {
    "a loss with parameters": {"loss": "with parameters"},
    "a torch generator in the step": {"generator": "torch in the step"},
    "a numpy generator in the step": {"generator": "numpy in the step"},
    "a python generator in collate_fn": {"generator": "python in collate"},
    "a generator in a module": {"generator": "torch in a module"},
    "a generator in a global variable": {"generator": "numpy in a global"},
    "a generator in a deque": {"generator": "numpy in a deque"},
    "a generator in a list of the dataset": {"generator": "numpy nested in the dataset"},
    "a generator in a module of the user's": {"generator": "numpy in a module of the user's"},
    "a generator in slots": {"generator": "numpy in slots"},
    "a generator in a global of a method": {"generator": "numpy in a global of a method"},
    "a generator in a gradient hook": {"generator": "torch in a gradient hook"},
    "a generator of the optimizer": {"optimizer": "noise"},
    "a generator in a hook of the optimizer": {"optimizer": "step hook"},
    "a generator in a function of the scheduler": {"rate": "drawn by the scheduler"},
    "a generator in a list of the sampler": {"sampler": "generator in a list"},
    "a generator in a dictionary of the sampler": {"sampler": "generator in a dict"},
    "a counter of a loss module": {"loss": "annealed"},
    "a counter of a loss object": {"loss": "annealed object"},
    "an average that is given": {"average": "declared"},
    "memory in attributes of the optimizer": {"optimizer": "memory in attributes"},
    "an optimizer inside an optimizer": {"optimizer": "wrapped"},
    "a tensor that only the optimizer holds": {"optimizer": "untracked tensor"},
}


@pytest.mark.parametrize("driver", ["session", "attach"])
@pytest.mark.parametrize("how", SAVED.values(), ids=SAVED.keys())
def test_it_is_saved_and_the_resume_is_exact(driver, how, tmp_path):
    assert assert_not_silent(Case(driver=driver, at=0.55, **how), tmp_path) == "exact"
    (result,) = repeated_facts(tmp_path)
    assert (result["verdict"], result["compared"]["ids"]) == ("exact", result["steps"])


@pytest.mark.parametrize("driver", ["session", "attach"])
@pytest.mark.parametrize("sampler", ["epoch counter", "list of its own"])
def test_a_sampler_with_a_state_is_exact_at_an_epoch_border(driver, sampler, tmp_path):
    case = Case(driver=driver, sampler=sampler, at=7 / 18, fault="raise")
    assert assert_not_silent(case, tmp_path) == "exact"


@pytest.mark.parametrize("driver", ["session", "attach"])
def test_a_stop_by_sigterm_is_resumed_exactly(driver, tmp_path):
    assert assert_not_silent(Case(driver=driver, at=0.55, fault="term"), tmp_path) == "exact"


NAMED: dict[str, dict[str, Any]] = {
    "a generator that nothing finds": {"generator": "numpy in a running function"},
    "a counter that decides the rate": {"rate": "counter"},
}


@pytest.mark.parametrize("driver", ["session", "attach"])
@pytest.mark.parametrize("how", NAMED.values(), ids=NAMED.keys())
def test_what_nothing_can_save_is_named_at_the_first_repeated_step(driver, how, tmp_path):
    case = Case(driver=driver, at=0.55, **how)
    assert "something that is in no state has moved" in assert_not_silent(case, tmp_path)


UNSAVED = [
    *({"second": how} for how in SECONDS),
    {"rate": "undeclared scheduler"},
]


@pytest.mark.parametrize("how", UNSAVED, ids=str)
def test_what_is_found_and_cannot_be_saved_is_refused_in_a_session(how, tmp_path):
    assert assert_not_silent(Case(driver="session", **how), tmp_path) == "refused"


@pytest.mark.parametrize("how", UNSAVED, ids=str)
def test_what_is_found_and_cannot_be_saved_is_reported_under_attach(how, tmp_path):
    case = Case(driver="attach", at=0.5, **how)
    assert "is in no state" in assert_not_silent(replace(case, fault="stop"), tmp_path)


@pytest.mark.parametrize("average", ["AveragedModel", "copy"])
def test_an_average_that_was_not_given_is_refused_or_reported(average, tmp_path):
    case = Case(driver="session", average=average)
    assert assert_not_silent(case, tmp_path / "session") == "refused"
    case = Case(driver="attach", average=average, at=0.55)
    assert "average is a" in assert_not_silent(case, tmp_path / "attach").lower()


def test_a_loop_that_steps_by_enumerate_is_reported(tmp_path):
    case = Case(driver="attach", accumulate="enumerate", at=0.5, fault="stop")
    assert "a batch counter of its own" in assert_not_silent(case, tmp_path)


def test_a_session_makes_its_first_step_twice_where_the_record_ends(tmp_path):
    case = Case(generator="numpy in a running function", fault="stop")
    assert "something that is in no state has moved" in assert_not_silent(case, tmp_path)


def test_under_attach_the_loop_is_never_run_for_a_check(tmp_path):
    case = Case(driver="attach", fault="stop")
    assert assert_not_silent(case, tmp_path) == "exact"
    (result,) = repeated_facts(tmp_path)
    assert result["text"] == "not compared: the record ends at the checkpoint"
    assert result["exact"] is None


RIGHT: dict[str, dict[str, Any]] = {
    "a running mean as the loss": {"driver": "attach", "logs": "running mean"},
    "a mean over some steps as the loss": {"driver": "attach", "logs": "window mean"},
    "a mean over all steps, not at each": {
        "driver": "attach",
        "logs": "cumulative mean every 2nd step",
    },
    "no loss at all": {"driver": "attach", "logs": "nothing"},
    "a scheduler in a session": {"rate": "scheduler"},
    "a scheduler under attach": {"driver": "attach", "rate": "scheduler"},
    "a stream": {"sampler": "stream"},
    "accumulation": {"accumulate": 2},
}


@pytest.mark.parametrize("how", RIGHT.values(), ids=RIGHT.keys())
def test_a_training_that_is_right_gives_no_alarm(how, tmp_path):
    assert assert_not_silent(Case(at=0.6, **how), tmp_path) == "exact"


def test_a_killed_run_says_how_many_steps_were_exact(tmp_path: Path):
    case = Case(at=11 / 18)
    live(training(case), tmp_path, "kill", 11)
    live(training(case), tmp_path)
    (result,) = repeated_facts(tmp_path)
    assert result["text"] == "exact over 2 repeated steps: ids 2, lr 2, loss 2, weights 1"
