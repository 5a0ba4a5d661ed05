"""Scripts under `midstep run` train as alone, bit for bit, and what is shown of them is true."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from midstep.facts import FactsReader
from tests.warm import run_warm

SCRIPTS = Path(__file__).parent / "scripts"
UNDER_RUN = Path(__file__).parent / "under_run.py"
NAMES = [
    "actor_critic",
    "ahead",
    "amp",
    "cart_pole_ppo",
    "cart_pole_reinforce",
    "char_lm",
    "compiled",
    "compiled_before",
    "compiled_block",
    "copies",
    "folds",
    "full_batch",
    "gan",
    "lbfgs",
    "loader",
    "next_loader",
    "own_env_ppo",
    "q_learning",
    "reinforce",
    "sam",
    "trainer",
]
SHORT: dict[str, dict[str, Any]] = {
    "char_lm": {},
    "gan": {"breakpoints": ["step >= 2"]},
    "loader": {"starts_paused": True},
}
"""Those that also run with nobody watching, and with these options: stepped, or stopped."""
OPTIONS = {"breakpoints": [], "has_page": False, "save_dir": "runs"}


def run_bare(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What the script alone knows of its training."""
    folder.mkdir()
    script = str(SCRIPTS / f"{name}.py")
    done = run_warm(script, *arguments, cwd=folder, timeout=60, program="python")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "known.json").read_text())


def run_under(
    name: str, folder: Path, *arguments: str, watched: bool, **options: Any
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """The same under `midstep run`, what each step would have shown, and standard error."""
    folder.mkdir()
    stepped = "1" if options.get("starts_paused") else ""
    env = {**os.environ, "WATCHED": "1" if watched else "", "STEPPED": stepped}
    script = str(SCRIPTS / f"{name}.py")
    done = run_warm(
        str(UNDER_RUN),
        json.dumps(OPTIONS | options),
        script,
        *arguments,
        cwd=folder,
        timeout=60,
        env=env,
        program="python",
    )
    assert done.returncode == 0, done.stderr
    known = json.loads((folder / "known.json").read_text())
    return known, json.loads((folder / "shown.json").read_text()), done.stderr


def only_run(folder: Path) -> Path:
    (directory,) = (folder / "runs").iterdir()
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_a_script_trains_as_alone_and_is_shown_truly(tmp_path, name):
    bare = run_bare(name, tmp_path / "bare")
    check_script(name, tmp_path / "watched", bare, watched=True)
    if name in SHORT:
        check_script(name, tmp_path / "under", bare, watched=False, **SHORT[name])


def test_trainings_that_take_turns_keep_their_series(tmp_path):
    bare = run_bare("turns", tmp_path / "bare")
    known, _, errors = run_under("turns", tmp_path / "under", watched=True)
    assert known == bare
    assert "failed and is off" not in errors
    series = FactsReader(only_run(tmp_path / "under")).series(
        ["loss.optimizer", "loss.optimizer_2"]
    )
    # The second agent seems to begin another training, until the first one comes back.
    first, second = known["losses"]
    assert series["loss.optimizer_2"].low.tolist() == pytest.approx(first[1:])
    assert series["loss.optimizer"].low.tolist() == pytest.approx(second[-3:])


def check_script(
    name: str, folder: Path, bare: dict[str, Any], *, watched: bool, **options: Any
) -> None:
    """Run the script, compare its bits with those alone, and what is shown with what it knows."""
    known, shown, errors = run_under(name, folder, watched=watched, **options)
    assert known == bare, "other bits than without midstep"
    assert "failed and is off" not in errors
    assert all("loss" in row or "loss.actor_optimizer" in row for row in shown)
    shown = [row for row in shown if "loss" in row]  # the actor may step without the critic
    assert len(shown) == len(known["steps"])
    for step, (fact, show) in enumerate(zip(known["steps"], shown, strict=True), 1):
        assert show["batch"] == fact["batch"], f"step {step}: another batch"
        for key in fact.keys() - {"weights", "batch"}:
            if key.startswith("layers.") and key not in show and step > 1:
                continue  # a run that moves shows some steps only
            assert show[key] == pytest.approx(fact[key], rel=1e-6), f"step {step}: {key}"
    if options.get("starts_paused"):
        assert shown[-1].keys() >= known["steps"][-1].keys() - {"weights"}
    seen = [each["layers"] for each in shown if each["layers"] is not None]
    assert bool(seen) == watched or options
    assert all(layers == known["layers"] for layers in seen)
    series = FactsReader(only_run(folder)).series(["loss", "lr"])
    recorded = [float(value) for value in series["loss"].low]
    assert recorded == pytest.approx([each["loss"] for each in known["steps"]], rel=1e-6)
    ends = [event for event in events(folder) if event["moment"] == "on_epoch_end"]
    if "optimizers" in known:
        (header,) = [event for event in events(folder) if event["moment"] == "on_start"]
        assert header["config"]["optimizers"] == known["optimizers"]
    if "epochs" in known:
        assert [end["step"] for end in ends] == known["epochs"]


def events(folder: Path) -> list[dict[str, Any]]:
    return list(FactsReader(only_run(folder)).events())
