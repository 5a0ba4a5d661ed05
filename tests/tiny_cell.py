"""A cell of a sweep without torch: it counts steps, keeps a checkpoint of them, and can be resumed.

Its config says how: `steps`, `step_s`, `error_at`, `refuse`. `begin_s` is spent before the run has
a lock, as loading torch is.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.facts import FactsWriter, Lease, LoopProgress, last_attempt
from midstep.loops.sweep.plan import read_plan

STEPS = "steps.txt"
"""One line for each step that was ever made, with its number."""


def main() -> int:
    request = strict_json.loads(sys.stdin.buffer.read())
    folder = Path(request["sweep_dir"])
    job = read_plan(folder).job(request["job"])
    config, run_dir = job.config, folder / job.run_dir
    is_stopped = []
    signal.signal(signal.SIGTERM, lambda *_: is_stopped.append(True))
    time.sleep(config.get("begin_s", 0))
    if config.get("refuse") and not (folder / "allowed").exists():
        sys.stderr.write("midstep: there is no such data\n")
        return 2
    return train(run_dir, job.run_id, config, request["start_lock"], is_stopped)


def train(run_dir: Path, run_id: str, config: Any, start_lock: int, is_stopped: list[bool]) -> int:
    checkpoint = run_dir / "checkpoint.txt"
    step = int(checkpoint.read_text()) if checkpoint.exists() else 0
    attempt = last_attempt(run_dir) + 1 if (run_dir / "facts").is_dir() else 1
    with Lease.acquire(run_dir, run_id, attempt) as lease:
        os.close(start_lock)
        lease.report_progress(lambda: LoopProgress(step=step, boundaries=step, moving=True))
        with FactsWriter(run_dir, run_id=run_id, attempt=attempt) as facts:
            facts.event("on_start", config=dict(config), total_steps=config["steps"])
            while step < config["steps"] and not is_stopped:
                step += 1
                with (run_dir / STEPS).open("a") as file:
                    file.write(f"{step}\n")
                facts.log(step, loss=1.0 / step)
                checkpoint.write_text(str(step))
                time.sleep(config.get("step_s", 0))
                if step == config.get("error_at") and attempt == 1:
                    facts.event("on_exception", step=step, error="ValueError: bad batch")
                    return 1
            facts.event(
                "on_epoch_end", step=step, epoch=0, val_loss=config["level"] + config["seed"] / 10
            )
            status = "stopped" if is_stopped else "finished"
            facts.event("on_train_end", status=status, step=step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
