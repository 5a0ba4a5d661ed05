"""A script as `midstep run` runs it, and what would be shown of each step if the run paused there.

`python under_run.py OPTIONS SCRIPT ARGS…` writes `shown.json`. With WATCHED=1 a viewer shows
everything and all rules are armed. A run that parks is stepped with STEPPED=1, else resumed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from midstep.control import DebugController
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.control.capture.captured_data import resolve
from midstep.control.capture.subscriptions import Need
from midstep.data.batch_structure import tensors_of
from midstep.live.script.program.main_program import run_script
from midstep.live.script.program.script_command import ScriptCommand
from midstep.live.script.script_run import ScriptRun
from midstep.server.runs.run_view import ENDED

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
from known import digest

sys.path.pop(0)
PROCESS = os.getpid()
NORMS = ("grad_norm", "update_norm")
shown: list[dict[str, object]] = []
usual_boundary, usual_enter = ScriptRun.pass_boundary, ScriptRun.enter


def enter(run: ScriptRun) -> bool:
    if os.environ.get("WATCHED"):
        run.controller.captures.viewer(Need(kind="batch"), Need(kind="step_data", key="layers"))
        for rule in RULES:
            run.controller.breakpoints.add_rule(rule, action="mark")
    threading.Thread(target=drive, args=(run.controller,), daemon=True).start()
    return usual_enter(run)


def drive(controller: DebugController) -> None:
    answered = -1
    while controller.status.state_name not in ENDED:
        step = controller.boundary.finished_steps
        if controller.is_parked and step != answered:
            answered = step
            if os.environ.get("STEPPED"):
                controller.step(1)
            else:
                controller.resume()
        time.sleep(0.002)


def pass_boundary(run: ScriptRun) -> bool:
    assert os.getpid() == PROCESS, "a boundary in a child"
    captures = run.controller.captures
    held = captures.held_batch
    batch = None if held is None else held.batch
    batch = batch() if callable(batch) else batch
    scalars = dict(captures._state.step_scalars)
    going = usual_boundary(run)
    published = captures.data.published.values.get("layers")
    layers = {} if published is None else resolve(published)
    is_fresh = bool(layers) and captures.data.published.step == run.step
    shown.append(
        {
            "batch": digest(*tensors_of(batch)),
            "layers": list(layers["name"]) if layers else None,
            **{f"layers.{key}": [float(v) for v in layers[key]] for key in NORMS if is_fresh},
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
