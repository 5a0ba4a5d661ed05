"""Kills facts writers at random instants: `python random_kills.py FOLDER ROUNDS SEED`.

This process is the warm parent: it has imported what a writer needs, and no torch, so that a
round costs a fork and a few milliseconds. It checks each run directory itself.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from midstep.core.moments import Moment
from midstep.facts import FactsWriter, end_state
from tests.checkers.kill import Acknowledge, assert_facts_survive, kill_at_random


def writer(run_dir: Path):
    def work(acknowledge: Acknowledge) -> None:
        facts = FactsWriter(run_dir)
        acknowledge({"seq": facts.event(Moment.START), "moment": "on_start"})
        for step in range(10**9):
            values = {"loss": step / 3} if step % 4 else {"loss": step / 3, "lr": 0.5}
            facts.log_values(step, values)
            if facts.written == facts.seq:  # on a busy machine a row may wait in the queue
                acknowledge({"seq": facts.seq, "step": step, "values": values})
            if step % 20 == 19:
                moment = Moment.EPOCH_END if step % 40 == 39 else Moment.STEP
                acknowledge({"seq": facts.event(moment, epoch=step), "moment": str(moment)})

    return work


def main(folder: Path, rounds: int, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(rounds):
        run_dir = folder / f"run{number}"
        told = kill_at_random(writer(run_dir), draw, most=120)
        last = assert_facts_survive(run_dir, told)
        assert end_state(run_dir).state == "killed"
        with FactsWriter(run_dir, attempt=2) as facts:
            assert facts.seq >= last
            facts.event(Moment.TRAIN_END)
        assert_facts_survive(run_dir, told)
        assert end_state(run_dir).state == "finished"


if __name__ == "__main__":
    assert "torch" not in sys.modules
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
