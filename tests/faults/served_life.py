"""A training in a process of its own, without torch: it makes steps until it is told to end.

Arguments: the outputs folder, how many steps, seconds a step. It says where it is, once it stands.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from midstep.live.run_socket import serve_on_socket
from midstep.session import Run
from midstep.session.signals import stop_at_signals

OUTPUTS, STEPS, STEP_S = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def main() -> None:
    with (
        Run(name="life", save_dir=OUTPUTS / "runs", total_steps=STEPS) as run,
        stop_at_signals(run.controller, lambda _cause: None),
        serve_on_socket(run),
    ):
        print(run.run_id, run.dir, flush=True)
        run.controller.boundary.enter()
        for step in range(STEPS):
            time.sleep(STEP_S)  # the work of a step
            run.log(loss=1.0 / (step + 1), other=float(step))
            if not run.controller.wait_if_paused():
                break


if __name__ == "__main__":
    main()
