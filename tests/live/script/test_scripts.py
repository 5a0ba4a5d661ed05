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
    "amp",
    "char_lm",
    "compiled",
    "copies",
    "folds",
    "full_batch",
    "gan",
    "lbfgs",
    "loader",
    "q_learning",
    "reinforce",
    "trainer",
]
SHORT = {"char_lm", "gan", "loader"}
"""Those that also run with nobody watching, which is another way through the boundary."""
OPTIONS = {"breakpoints": [], "has_page": False, "save_dir": "runs"}


def run_bare(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What the script alone knows of its training."""
    folder.mkdir()
    script = str(SCRIPTS / f"{name}.py")
    done = run_warm(script, *arguments, cwd=folder, timeout=60, program="python")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "known.json").read_text())


def run_under(
    name: str, folder: Path, *arguments: str, watched: bool
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """The same under `midstep run`, what each step would have shown, and standard error."""
    folder.mkdir()
    env = {**os.environ, "WATCHED": "1" if watched else ""}
    script = str(SCRIPTS / f"{name}.py")
    done = run_warm(
        str(UNDER_RUN),
        json.dumps(OPTIONS),
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
        check_script(name, tmp_path / "under", bare, watched=False)


def check_script(name: str, folder: Path, bare: dict[str, Any], *, watched: bool) -> None:
    """Run the script, compare its bits with those alone, and what is shown with what it knows."""
    known, shown, errors = run_under(name, folder, watched=watched)
    assert known == bare, "other bits than without midstep"
    assert "failed and is off" not in errors
    assert len(shown) == len(known["steps"])
    for step, (fact, show) in enumerate(zip(known["steps"], shown, strict=True), 1):
        assert show["batch"] == fact["batch"], f"step {step}: another batch"
        for key in fact.keys() - {"weights", "batch"}:
            assert show[key] == pytest.approx(fact[key], rel=1e-6), f"step {step}: {key}"
    seen = [each["layers"] for each in shown if each["layers"] is not None]
    assert bool(seen) == watched
    assert all(layers == known["layers"] for layers in seen)
    series = FactsReader(only_run(folder)).series(["loss", "lr"])
    recorded = [float(value) for value in series["loss"].low]
    assert recorded == pytest.approx([each["loss"] for each in known["steps"]], rel=1e-6)
    ends = [event for event in events(folder) if event["moment"] == "on_epoch_end"]
    if "epochs" in known:
        assert [end["step"] for end in ends] == known["epochs"]


def events(folder: Path) -> list[dict[str, Any]]:
    return list(FactsReader(only_run(folder)).events())
