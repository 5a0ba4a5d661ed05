"""Kills sessions at random instants: `python session_kills.py FOLDER KILLS SEED`.

This process is the warm parent: everything is imported and torch has one thread, so that a life
costs a fork. It compares what the children told and never trains while one of them lives.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from midstep.session.checkpoint.fingerprint import hash_value
from tests.checkers.kill import (
    Acknowledge,
    ForkedChild,
    assert_facts_survive,
    assert_nothing_left,
    run_forked,
)
from tests.data.order.loaders import Augmented, Case, as_rows
from tests.session.sessions import Recipe

STEPS, LENGTH, BATCH = 26, 62, 4
"""Eight steps of two batches an epoch; the last has one that is partial."""


@dataclass(frozen=True, kw_only=True)
class LongCase(Case):
    """Augmented samples in a random order, sixteen batches an epoch."""

    def loader(self) -> DataLoader[Any]:
        return DataLoader(
            Augmented(LENGTH),
            BATCH,
            shuffle=True,
            collate_fn=as_rows,
            num_workers=self.workers,
            persistent_workers=self.persistent,
        )


def recipe(policy: str, workers: int, *, persistent: bool = False) -> Recipe:
    return Recipe(
        case=LongCase(policy=policy, workers=workers, persistent=persistent),
        settings={"accumulate_steps": 2, "grad_clip_norm": 1.0},
        poison=(5,),
        validate=True,
    )


def life(recipe: Recipe, folder: Path, run_name: str) -> Callable[[Acknowledge], None]:
    """One process: from the newest checkpoint on, telling each step and the end."""

    def work(acknowledge: Acknowledge) -> None:
        os.setpgid(0, 0)
        every = 1 + sum(map(ord, folder.name)) % 3
        settings = {
            "save_dir": folder,
            "run_name": run_name,
            "resume": "auto",
            "checkpoint_every_steps": every,
        }
        with recipe(settings) as session:

            @session.on_step
            def tell(record: Any) -> None:
                acknowledge([record.step, list(record.sample_ids), record.loss.hex()])

            session.fit(steps=STEPS)
            last = session.trainer.state.take()
            tree = {**last.state_tree(), "step": last.step, "epoch": last.epoch}
            acknowledge({name: hash_value(part) for name, part in tree.items()})

    return work


@dataclass
class Told:
    """Everything that the lives of a training told."""

    steps: dict[int, list[Any]] = field(default_factory=dict)
    end: dict[str, str] | None = None

    def add(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, dict):
                assert "raised" not in message, message["raised"]
                self.end = message
            else:
                step = self.steps.setdefault(message[0], message[1:])
                assert step == message[1:], f"step {message[0]} made again is {message[1:]}"


def random_kill(child: ForkedChild, draw: random.Random) -> list[Any]:
    """After a few steps, or at any moment of the start."""
    if draw.random() < 0.75:
        child.read_until(draw.randrange(1, 7))
    spin_until = time.perf_counter() + draw.random() * 0.04
    while time.perf_counter() < spin_until:  # shorter than a sleep can be
        continue
    os.kill(child.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # its workers would see it only after seconds
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


def main(folder: Path, kills: int, seed: int) -> None:
    draw, left = random.Random(seed), kills
    expected: dict[str, Told] = {}
    for number in itertools.count():
        policy = ("epoch_reseed", "fixed_order")[number % 2]
        if policy not in expected:
            whole = Told()
            whole.add(run_forked(life(recipe(policy, 0), folder, f"whole-{policy}")))
            expected[policy] = whole
        told = Told()
        name = f"killed-{number}"
        while told.end is None:
            workers = draw.choice((0, 0, 0, 0, 1, 2))
            made = recipe(policy, workers, persistent=workers > 0 and draw.random() < 0.5)
            child = ForkedChild(life(made, folder / str(number % 3), name))
            if left > 0:
                told.add(random_kill(child, draw))
                left -= 1
            else:
                told.add(child.wait())
        assert told.steps == expected[policy].steps, "another stream of ids, or other losses"
        assert told.end == expected[policy].end, "another state at the end"
        run_dir = folder / str(number % 3) / name
        assert_facts_survive(run_dir)
        assert_nothing_left(run_dir)
        if left <= 0:
            break
    sys.stdout.write(json.dumps({"kills": kills, "trainings": number + 1}) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as warm:
        made = recipe("epoch_reseed", 0)
        with made({"save_dir": warm, "run_name": "warm"}) as session:
            session.fit(steps=1)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
