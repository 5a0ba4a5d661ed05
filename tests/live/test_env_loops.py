"""Loops on Gymnasium's CartPole: neutral, resumed after a kill, taken back, bit for bit."""

from __future__ import annotations

from functools import partial

import pytest

from tests.checkers.loops import (
    Script,
    Training,
    assert_loop_goes_back,
    assert_loop_neutral,
    assert_loop_resumes,
    run_script,
)
from tests.checkers.neutral import CONDITIONS

SCRIPTS = {
    "dqn": Script(name="cart_pole_dqn", argument=54),
    "ppo": Script(name="cart_pole_ppo"),
    "reinforce": Script(name="cart_pole_reinforce"),
}
each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())


@pytest.fixture(autouse=True)
def _gymnasium(monkeypatch):
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "hide")  # Gymnasium would set it for good
    pytest.importorskip("gymnasium")


@each_script
def test_an_episode_continues_exactly_after_a_kill(script, tmp_path):
    assert assert_loop_resumes(script, tmp_path, "kill") == ["exact"]


def test_an_environment_that_is_not_declared_is_named_after_a_resume(tmp_path):
    (named,) = assert_loop_resumes(SCRIPTS["ppo"], tmp_path, "kill", at=9, extra_state={})
    assert "step 7 trained on other samples" in named


@each_script
def test_an_episode_is_taken_back_and_played_again_exactly(script, tmp_path):
    assert assert_loop_goes_back(partial(run_script, script), Training, tmp_path) == "exact"


@each_script
def test_an_environment_that_is_saved_plays_as_without_midstep(script, tmp_path):
    assert_loop_neutral(script, tmp_path, {"stepped": CONDITIONS["stepped"]})
