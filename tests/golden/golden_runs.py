"""Makes the golden runs: trainings with checkpoints, a rewound run, and runs that ended badly.

Called by `make_golden.py` only. Runs are made in the working directory with relative paths, since a
run records its settings; `scrub` takes the machine out of them afterwards.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from midstep import Run
from midstep.loops.bcl import BclConfig, BclTraining
from tests.golden.golden_copy import IDS
from tests.golden.scrub import scrub_lease, scrub_run
from tests.golden.trainings import (
    EPOCHS,
    PATIENCE_S,
    STOPPED_AT,
    AttachedTraining,
    SessionTraining,
    ask,
    training_in_thread,
)

RUNS = Path("runs")


def make_runs() -> None:
    """Write all golden runs into `runs`."""
    attached_run()
    session_run()
    rewound_run()
    competitive_run()
    failed_run()
    damaged_runs()
    unfinished_runs()


def attached_run() -> None:
    """A loop under `attach`, stopped in the middle of an epoch."""
    training = AttachedTraining()
    with training.attach(save_dir=RUNS, resume="auto", checkpoint_keep=1) as run:
        training.train(run, epochs=EPOCHS, stop_at=STOPPED_AT)
    scrub_run(RUNS / "attached", IDS["attached"])


def session_run() -> None:
    """A session with state of the user's own, stopped in the middle of an epoch."""
    training = SessionTraining(save_dir=RUNS, resume="auto", checkpoint_keep=1)
    session = training.session
    session.on_step(
        lambda record: training.controller.stop() if record.step == STOPPED_AT else None
    )
    with session:
        session.fit(epochs=EPOCHS)
    scrub_run(RUNS / "session", IDS["session"])


def rewound_run() -> None:
    """Two attempts, two rewinds, a changed learning rate, a breakpoint; facts only."""
    settings = {"save_dir": RUNS, "run_name": "rewound"}
    training = SessionTraining(**settings)
    controller = training.controller
    controller.add_breakpoint("step", step=9)
    with training_in_thread(controller, lambda: training.session.fit(epochs=EPOCHS)):
        ask(controller, "step", n=4)
        ask(controller, "back", n=2)
        ask(controller, "set_hparams", lr_mul=0.5)
        ask(controller, "resume")
        _wait_until_parked_at(controller, 9)
        ask(controller, "back", step=8)
        ask(controller, "step", n=1)
        ask(controller, "test_now")
    training.session.close()
    again = SessionTraining(resume="must", **settings)
    with again.session:
        again.session.fit(epochs=2)
    folder = RUNS / "rewound"
    shutil.rmtree(folder / "checkpoints")
    for link in ("last", "best_val", "model"):
        (folder / link).unlink()
    labels = {"tags": ["golden", "baseline"], "note": "Two attempts, two rewinds."}
    (folder / "labels.json").write_text(json.dumps(labels))
    scrub_run(folder, IDS["rewound"])


def _wait_until_parked_at(controller: Any, step: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (controller.is_parked and controller.get_state()["step"] == step):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the training did not park at step {step}")
        time.sleep(0.01)


def competitive_run() -> None:
    """An ended run of the competitive recipe, with features, trajectories and a checkpoint."""
    config = BclConfig(steps=12, health_every=5, batch_size=16, hidden=4, neighborhood_k=2)
    training = BclTraining(config)
    with training.open_run(name="competitive", save_dir=RUNS, run_name="competitive") as run:
        run.controller.add_watch(1, source="encoder.weight")
        run.controller.add_watch(3, source="encoder.weight")
        training.run_to_end(run)
    folder = RUNS / "competitive"
    kept = (folder / "last").readlink().name
    for each in (folder / "checkpoints").iterdir():
        if each.name != kept:
            shutil.rmtree(each)
    (folder / "console.log").write_text("step 1\nstep 2\n")
    (folder / "notes.txt").write_text("A file of the user's own.\n")
    scrub_run(folder, IDS["competitive"])


def failed_run() -> None:
    """A run whose training raised."""
    try:
        with Run(name="failed", save_dir=RUNS, run_name="failed", on_error="raise") as run:
            _three_steps(run)
            raise ValueError("the golden error")
    except ValueError:
        scrub_run(RUNS / "failed", IDS["failed"])


def _three_steps(run: Any) -> None:
    for step in range(3):
        run.log(loss=1.0 / (step + 1), lr=0.1)
        run.controller.wait_if_paused()


def damaged_runs() -> None:
    """One run with a damaged event and a torn row, one without a whole record."""
    for name in ("damaged", "unreadable"):
        with Run(name=name, save_dir=RUNS, run_name=name, total_steps=3) as run:
            _three_steps(run)
            run.event("on_epoch_end", epoch=0, step=3, train_loss=0.5)
        scrub_run(RUNS / name, IDS[name])
    events = RUNS / "damaged" / "facts" / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"train_loss":0.5', b'"train_loss":9.5'))
    rows = next((RUNS / "damaged" / "facts").glob("steps*.bin"))
    rows.write_bytes(rows.read_bytes()[:-5])
    events = RUNS / "unreadable" / "facts" / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"seq":', b'"Seq":'))


def unfinished_runs() -> None:
    """Runs without an end record, with the lease as their process left it."""
    with Run(name="unfinished", save_dir=RUNS, run_name="unfinished", total_steps=9) as run:
        _three_steps(run)
        run.lease.reachable_at(socket=None)  # writes the lease at once, as a heartbeat would
        for name in ("elsewhere", "lost", "killed"):
            shutil.copytree(run.dir, RUNS / name)
    shutil.rmtree(RUNS / "unfinished")
    for name in ("elsewhere", "lost", "killed"):
        lease = json.loads((RUNS / name / "lease.json").read_bytes())
        scrub_run(RUNS / name, IDS[name])
        neutral = scrub_lease(lease, run_id=IDS[name])
        (RUNS / name / "lease.json").write_text(json.dumps(neutral))
