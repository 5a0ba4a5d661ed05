"""The short life of a facts writer, run under strace: `python short_life.py RUN_DIR`.

Each record is told on stdout once the writer says that it is written. No torch, no numpy.
"""

from __future__ import annotations

import json
import os
import secrets
import sys

from midstep.core.moments import Moment
from midstep.facts import FactsWriter


def main(run_dir: str) -> None:
    secrets.token_hex = lambda size=8: "fixed"  # the trace goes by the names of files
    facts = FactsWriter(run_dir)
    facts._queue.slow_write_s = 1e9  # under strace everything is slow
    tell(facts, facts.event(Moment.START, seed=7), moment="on_start", values={"seed": 7})
    for step in range(3):
        facts.log(step, loss=step / 2)
        tell(facts, facts.seq, step=step, values={"loss": step / 2})
    tell(facts, facts.event(Moment.EPOCH_END, epoch=0), moment="on_epoch_end")
    facts.log(3, loss=1.5, lr=0.1)
    tell(facts, facts.seq, step=3, values={"loss": 1.5, "lr": 0.1})
    tell(facts, facts.event(Moment.TRAIN_END, status="finished"), moment="on_train_end")
    if facts.durability_lost or facts.fault:
        os.write(2, f"{facts.durability_lost} {facts.fault}\n".encode())
    facts.close()


def tell(facts: FactsWriter, seq: int, **fact: object) -> None:
    """Acknowledged means with the kernel: not what waits for a slow or refusing disk."""
    if seq <= facts.written:
        os.write(1, json.dumps({"seq": seq, **fact}).encode() + b"\n")


if __name__ == "__main__":
    assert not {"torch", "numpy"} & set(sys.modules)
    main(sys.argv[1])
