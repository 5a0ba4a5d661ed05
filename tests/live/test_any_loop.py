"""Loops of any shape: neutral, resumed after a kill or a stop, taken back. Exact, or it is said."""

from __future__ import annotations

from functools import partial

import pytest

from tests.checkers.loops import (
    SCRIPTS,
    Training,
    assert_loop_goes_back,
    assert_loop_neutral,
    assert_loop_resumes,
    run_script,
)
from tests.checkers.neutral import CONDITIONS

each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())


@each_script
def test_a_loop_of_any_shape_that_is_looked_at_stays_the_same(script, tmp_path):
    names = ("stepped", "breakpoint") if script.name in ("dqn", "ppo") else ("stepped",)
    assert_loop_neutral(script, tmp_path, {name: CONDITIONS[name] for name in names})


@each_script
def test_a_loop_of_any_shape_is_resumed_exactly_after_a_kill_and_after_a_stop(script, tmp_path):
    assert assert_loop_resumes(script, tmp_path, "kill", "stop") == ["exact", "exact"]


@each_script
def test_steps_of_a_loop_of_any_shape_are_taken_back_and_made_again_exactly(script, tmp_path):
    assert assert_loop_goes_back(partial(run_script, script), Training, tmp_path) == "exact"
