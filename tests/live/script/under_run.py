"""A script as `midstep run` runs it, and what would be shown of each step if the run paused there.

`python under_run.py OPTIONS SCRIPT ARGS…` writes `shown.json`. With WATCHED=1 a viewer shows
everything and all rules are armed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from midstep.control.breakpoints.rule_catalog import RULES
from midstep.control.capture.captured_data import resolve
from midstep.control.capture.subscriptions import Need
from midstep.data.batch_structure import tensors_of
from midstep.live.script.program.main_program import run_script
from midstep.live.script.program.script_command import ScriptCommand
from midstep.live.script.script_run import ScriptRun

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
from known import digest

sys.path.pop(0)
shown: list[dict[str, object]] = []
usual_boundary, usual_enter = ScriptRun.pass_boundary, ScriptRun.enter


def enter(run: ScriptRun) -> bool:
    if os.environ.get("WATCHED"):
        run.controller.captures.viewer(Need(kind="batch"), Need(kind="step_data", key="layers"))
        for rule in RULES:
            run.controller.breakpoints.add_rule(rule, action="mark")
    return usual_enter(run)


def pass_boundary(run: ScriptRun) -> bool:
    captures = run.controller.captures
    held = captures.held_batch
    batch = held.batch() if callable(held.batch) else held.batch
    scalars = dict(captures._state.step_scalars)
    going = usual_boundary(run)
    layers = captures.data.published.values.get("layers")
    shown.append(
        {
            "batch": digest(*tensors_of(batch)),
            "layers": None if layers is None else list(resolve(layers)["name"]),
            "layers_step": captures.data.published.step,
            **scalars,
        }
    )
    return going


ScriptRun.pass_boundary, ScriptRun.enter = pass_boundary, enter
try:
    run_script(ScriptCommand.from_json(sys.argv[1], sys.argv[2:]))
finally:
    Path("shown.json").write_text(json.dumps(shown))
