"""Checkpoints that stay in the repository: `python -m tests.session.golden` writes the next one.

Each folder of `golden/` is a format version. It has a checkpoint as that version wrote it, and
`expected.json`: a hash of every part as it was in memory, and what the training did from there on.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

from midstep.session import Session
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.checkpoint.fingerprint import hash_value
from midstep.session.checkpoint.manifest import VERSION
from tests.data.order.loaders import Case
from tests.session.test_extra_state import Averaging

GOLDEN = Path(__file__).with_name("golden")
KEPT, STEPS = 4, 7
"""In the middle of the second epoch, until the start of the third."""


def make(folder: Path, **settings: Any) -> Session:
    """Dropout, batch norm, Adam, a scheduler, a counter of the user's own, a seeded order.

    The average of the weights is not in the checkpoint; no loss depends on it.
    """
    settings = {"rewind_steps": 0, "enforce_sampler_state": False, **settings}
    recipe = Averaging(case=Case(policy="epoch_reseed"), names=("counter",))
    return recipe({"save_dir": folder, "run_name": "run", **settings})


def rest(session: Session) -> list[Any]:
    """Train on to the end; ids and loss of each step."""
    found: list[Any] = []
    session.on_step(lambda record: found.append([list(record.sample_ids), record.loss]))
    session.fit(steps=STEPS)
    return found


def write(folder: Path) -> None:
    """The golden checkpoint of the present version."""
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        with make(Path("runs")) as session:
            session.fit(steps=KEPT)
            snapshot = session.trainer.state.take()
        del session
        path = CheckpointStore(folder).save(snapshot)
        (folder / "last").unlink()
        with make(Path("runs"), resume="must") as session:
            expected = {
                "parts": {name: hash_value(tree) for name, tree in snapshot.state_tree().items()},
                "rest": rest(session),
            }
    text = json.dumps({"checkpoint": path.name, **expected}, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    (GOLDEN / str(VERSION)).mkdir(parents=True)
    write(GOLDEN / str(VERSION))
