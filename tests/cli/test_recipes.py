"""`midstep runs recipes|start|terminate`, as a stranger types them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from midstep.cli.runs.runs_app import app
from midstep.core.errors import ConfigError, ControlError
from midstep.facts import end_state
from midstep.facts.liveness.run_lock import lock_holder

runner = CliRunner()


def _run(*words: str) -> str:
    result = runner.invoke(app, list(words))
    if result.exception is not None:
        raise result.exception
    return result.output


def test_recipes_are_listed_with_settings_bounds_and_meaning() -> None:
    said = " ".join(_run("recipes").split())
    assert "demo: Demo: competing features." in said
    assert "int from 1 to 100,000,000, default 25000. Optimizer steps in all." in said
    assert json.loads(_run("recipes", "--json"))[0]["settings"][0]["choices"][0] == "novelty"


def test_a_run_starts_in_the_background_and_is_ended_by_id(tmp_path: Path) -> None:
    words = ("start", "demo", "--set", "steps=1000000", "--set", "lr=0.01", "--paused", "--json")
    made = json.loads(_run(*words, "--save-dir", str(tmp_path)))
    folder = Path(made["directory"])
    assert lock_holder(folder) is not None
    _run("terminate", made["id"], "--kill", "--save-dir", str(tmp_path))
    deadline = time.monotonic() + 60
    while lock_holder(folder) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert end_state(folder).state == "killed"
    with pytest.raises(ControlError, match="no process"):
        _run("terminate", made["id"], "--save-dir", str(tmp_path))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("steps", "takes NAME=VALUE"),
        ("steps=many", "steps must be a whole number, got 'many'"),
        ("speed=3", "speed is not a setting"),
    ],
)
def test_a_wrong_setting_is_said_with_what_would_be_right(
    tmp_path: Path, given: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        _run("start", "demo", "--set", given, "--save-dir", str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()
