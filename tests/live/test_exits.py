"""`start()` without `close()`: the run ends with the script, on record and without noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midstep.facts import FactsReader
from tests.warm import run_warm

SCRIPT = Path(__file__).parent / "exits.py"

WAYS = {
    # way: exit code, what the script prints, end record
    "end": (0, "the loop is over\n", {"moment": "on_train_end", "status": "finished", "step": 40}),
    "stop": (0, "", {"moment": "on_train_end", "status": "stopped", "step": 6}),
    "sigterm": (
        0,
        "",
        {"moment": "on_train_end", "status": "stopped", "step": 6, "reason": "SIGTERM"},
    ),
    "error": (1, "", {"moment": "on_exception", "error": "RuntimeError: of the script"}),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exits")
    parent = run_warm(str(SCRIPT), str(folder), cwd=folder, timeout=180, program="python")
    assert parent.returncode == 0, parent.stderr
    return folder, json.loads(parent.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_a_started_run_ends_with_its_script(way, ended):
    folder, codes = ended
    code, printed, expected = WAYS[way]
    said = (folder / way / "stderr").read_text()
    assert (codes[way], (folder / way / "stdout").read_text()) == (code, printed), said
    last = FactsReader(folder / way / "run").events()[-1]
    assert {name: last.get(name) for name in expected} == expected
    lines = [line for line in said.splitlines() if not line.startswith("midstep: ")]
    # Only the traceback of the script's own error, which has no frame of ours.
    assert bool(lines) == (way == "error"), said
    assert "src/midstep" not in "\n".join(lines)
