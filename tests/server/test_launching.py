"""Recipes start as processes of their own, or say why not, and leave nothing behind then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.core.errors import ConfigError, ControlError, MidstepError
from midstep.facts import FactsReader, end_state, read_lease
from midstep.facts.format.console_parts import START
from midstep.facts.liveness.run_lock import lock_holder
from midstep.server.recipes.end_process import end_process
from midstep.server.recipes.launcher import LaunchedRun, Launcher, LaunchRequest

WAIT_S = 180.0


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path / "runs")
    yield made
    for run_dir in (tmp_path / "runs").glob("run_*"):
        if lock_holder(run_dir) is not None:
            end_process(run_dir, "kill")
            _ended(run_dir)
    _reaped(made)


def _reaped(launcher: Launcher) -> None:
    deadline = time.monotonic() + WAIT_S
    while launcher._children and time.monotonic() < deadline:
        launcher.reap()
        time.sleep(0.02)
    assert not launcher._children


def _ended(run_dir: Path) -> str:
    deadline = time.monotonic() + WAIT_S
    while lock_holder(run_dir) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return end_state(run_dir).state


def _start(launcher: Launcher, *, steps: int = 3, paused: bool = False, **more: str) -> LaunchedRun:
    wanted = LaunchRequest(id="a", recipe="demo", settings={"steps": steps}, paused=paused, **more)
    return launcher.start(wanted)


def test_a_recipe_trains_to_its_end_in_a_session_of_its_own(launcher: Launcher) -> None:
    started = _start(launcher, name="first try")
    assert _ended(started.run_dir) == "finished"
    _reaped(launcher)
    header = FactsReader(started.run_dir).header()
    assert header["run_id"] == started.run_id
    assert header["name"] == "first try"
    assert header["config"]["recipe"] == "demo"
    assert header["config"]["steps"] == 3
    console = (started.run_dir / "console.log").read_text()
    assert f"run {started.run_id}: demo" in console
    assert console.endswith("ended after 3 steps\n")
    assert not (started.run_dir / START).exists()


def test_a_paused_run_stands_apart_from_us_until_it_is_ended_by_signal(launcher: Launcher) -> None:
    started = _start(launcher, steps=1_000_000, paused=True)
    lease = read_lease(started.run_dir)
    assert lease is not None
    assert lease["socket"] is not None
    assert os.getsid(lease["pid"]) == lease["pid"]
    assert end_process(started.run_dir, "terminate") == lease["pid"]
    assert _ended(started.run_dir) == "stopped"


def test_a_killed_run_is_said_to_be_killed(launcher: Launcher) -> None:
    started = _start(launcher, steps=1_000_000, paused=True)
    pid = end_process(started.run_dir, "kill")
    assert _ended(started.run_dir) == "killed"
    deadline = time.monotonic() + WAIT_S
    while Path(f"/proc/{pid}").exists():  # also where no other run is started
        assert time.monotonic() < deadline, "it stayed behind as a zombie"
        time.sleep(0.02)
    with pytest.raises(ControlError, match="no process"):
        end_process(started.run_dir, "kill")


def test_asked_twice_with_one_id_it_is_started_once(launcher: Launcher) -> None:
    first = _start(launcher, paused=True, steps=1_000_000)
    assert _start(launcher, paused=True, steps=1_000_000) == first
    assert len(list(launcher.save_dir.iterdir())) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": True}, "steps must be a whole number"),
        ({"lr": float("nan")}, "lr must be a finite number"),
        ({"condition": "other"}, "condition must be one of novelty"),
        ({"stpes": 3}, "stpes is not a setting"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_made(
    launcher: Launcher, settings: dict[str, float], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        launcher.start(LaunchRequest(id="a", recipe="demo", settings=settings))
    assert not launcher.save_dir.exists()


def test_what_only_the_recipe_finds_wrong_is_refused_and_leaves_no_directory(
    launcher: Launcher,
) -> None:
    with pytest.raises(ConfigError, match="lr must be above 0"):
        launcher.start(LaunchRequest(id="a", recipe="demo", settings={"lr": 0.0}))
    assert list(launcher.save_dir.iterdir()) == []


def test_an_unknown_recipe_is_refused_by_name(launcher: Launcher) -> None:
    with pytest.raises(ConfigError, match="no recipe 'rm'; there are demo"):
        launcher.start(LaunchRequest(id="a", recipe="rm", settings={}))


def test_a_child_that_dies_before_its_run_says_what_it_printed(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midstep.server.recipes.launcher.RECIPE_CHILD", "midstep.live.no_such_module"
    )
    with pytest.raises(MidstepError, match="no_such_module"):
        _start(launcher)
    assert list(launcher.save_dir.iterdir()) == []


def test_this_process_does_not_end_itself(tmp_path: Path) -> None:
    from midstep.session import Run

    with Run(name="own", save_dir=tmp_path) as run, pytest.raises(ControlError, match="itself"):
        end_process(run.dir, "kill")


def test_a_process_of_another_machine_is_left_alone(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = _start(launcher, paused=True, steps=1_000_000)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("midstep.server.recipes.end_process.platform.node", lambda: "node8")
        with pytest.raises(ControlError, match="another machine"):
            end_process(started.run_dir, "kill")
    lease = read_lease(started.run_dir)
    assert lease is not None
    os.kill(lease["pid"], signal.SIGKILL)
    assert _ended(started.run_dir) == "killed"
