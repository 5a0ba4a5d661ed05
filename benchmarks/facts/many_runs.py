"""A folder with many finished runs, for the benchmarks of lists and curves."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from midstep.core.moments import Moment
from midstep.facts import FactsWriter
from midstep.facts.format.event_lines import EventHeader, encode_fields, encode_line

__all__ = ["long_runs", "run_folders", "run_id"]

STEPS_PER_EPOCH = 100
BEGUN_AT = 1_790_000_000.0
"""Wall time of the first run, seconds since 1970."""


def run_id(index: int) -> str:
    """The id of the run with that number, in the form that ids have."""
    return f"{index:012d}"


def run_folders(folder: Path, runs: int = 1000, epochs: int = 50) -> Path:
    """`runs` finished runs of `epochs` epochs, each with its settings and losses."""
    for index in range(runs):
        facts = folder / "runs" / f"run_{index:05d}" / "facts"
        facts.mkdir(parents=True)
        lines = (encode_line(seq, head, text) for seq, head, text in _records(index, epochs))
        (facts / "events.jsonl").write_bytes(b"".join(lines))
    return folder


def _records(index: int, epochs: int) -> Iterator[tuple[int, EventHeader, str]]:
    chance = random.Random(index)
    begun, floor = BEGUN_AT + 600.0 * index, chance.uniform(0.05, 0.09)

    def record(seq: int, moment: Moment, **fields: Any) -> tuple[int, EventHeader, str]:
        wall = begun + 10.0 * seq
        head = EventHeader(1, 0, wall, 10.0 * seq, str(moment), run_id(index), 0)
        return seq, head, encode_fields(fields)

    config = {
        "recipe": "bench",
        "trainer": {"lr": (1e-3, 5e-4)[index % 2], "batch_size": 128, "epochs": epochs},
        "variant": ("control", "novelty", "gating", "rescue")[index % 4],
        "width": 64 * (1 + index % 3),
    }
    yield record(1, Moment.START, name=f"bench-{index}", config=config, seed=index % 5, host="node")
    for epoch in range(epochs):
        loss = floor + 0.5 * math.exp(-epoch / 8) + chance.gauss(0, 0.001)
        yield record(
            epoch + 2,
            Moment.EPOCH_END,
            epoch=epoch,
            step=STEPS_PER_EPOCH * (epoch + 1),
            split="train",
            train_loss=loss,
            val_loss=loss * 1.03,
            metrics={"accuracy": 1 - loss},
        )
    yield record(epochs + 2, Moment.TRAIN_END, status="finished", step=STEPS_PER_EPOCH * epochs)


def long_runs(folder: Path, runs: int = 50, points: int = 100_000) -> Path:
    """`runs` finished runs with a loss for each of `points` steps."""
    chance = random.Random(0)
    noise = [chance.gauss(0, 0.002) for _ in range(points)]
    for index in range(runs):
        run_dir = folder / "runs" / f"run_long_{index:03d}"
        with FactsWriter(run_dir, run_id=run_id(index)) as facts:
            facts.event(Moment.START, name=f"long-{index}", config={"width": index}, seed=index)
            for step in range(1, points + 1):
                base = 0.06 + 0.001 * index + 0.4 * math.exp(-step / 5000)
                facts.log(step, loss=base + noise[(step * (index + 1)) % points])
            facts.event(Moment.TRAIN_END, status="finished", step=points)
    return folder
