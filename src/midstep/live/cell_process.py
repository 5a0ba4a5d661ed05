"""`python -m midstep.live.cell_process`: train one cell of a sweep, as stdin requests.

The pool has made the run directory, and holds a lock that this process has inherited. It is closed
once the run has its own lock, so the pool knows at every moment whether the cell is being trained.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import MidstepError


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """What this process trains."""

    sweep_dir: str
    """Folder of the sweep, with its plan."""
    job: int
    """Number of the cell."""
    start_lock: int
    """Descriptor of the lock that is held until the run has its own."""


def main() -> int:
    """Train the cell that stdin requests; returns the exit code."""
    request = CellRequest(**strict_json.loads(sys.stdin.buffer.read()))
    try:
        return _train(request)
    except MidstepError as error:
        sys.stderr.write(f"midstep: {' '.join(str(error).split())}\n")
        return 2


def _train(request: CellRequest) -> int:
    from midstep.live.launch_answer import leave_start_output
    from midstep.live.run_socket import serve_on_socket
    from midstep.loops.composed.loop_training import LoopTraining, RunLocation
    from midstep.loops.sweep.composed_cells import composed_of
    from midstep.loops.sweep.plan import read_plan
    from midstep.session.signals import stop_at_signals

    folder = Path(request.sweep_dir)
    plan = read_plan(folder)
    job = plan.job(request.job)
    training = LoopTraining(composed_of(job, folder / job.run_dir))
    run = training.open(
        RunLocation(
            name=f"{plan.name}-{job.job}",
            save_dir=folder,
            run_name=job.run_dir,
            run_id=job.run_id,
            resume="auto",
        )
    )
    os.close(request.start_lock)
    leave_start_output(folder / job.run_dir)
    with stop_at_signals(run.controller, run.note_stop), run, serve_on_socket(run):
        training.run_to_end(run)
    return 0 if run.unsaved is None else 1


if __name__ == "__main__":
    sys.exit(main())
