"""What it costs to look at forces: the demo's steps with a page open, and large matrices."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np
import torch

from benchmarks.figures import Figure, alternating_ratio
from midstep.live import serve
from midstep.loops.bcl import BclConfig, BclTraining, Condition
from midstep.server.cosine import cluster_order, similarity, unit_rows
from midstep.session import Run

__all__ = ["figures"]

BLOCK_S = 0.5
ROWS = 2048
POLLING = """
import sys, threading, time
from midstep.client import Client
client, looking = Client(sys.argv[1]), threading.Event()
def listen():
    for line in sys.stdin:
        looking.set() if line.strip() == "on" else looking.clear()
threading.Thread(target=listen, daemon=True).start()
print("ready", flush=True)
turn = 0
while looking.wait():
    begun = time.monotonic()
    if turn % 4 == 0:
        client.forces()  # waits for the first capture
    if turn % 2 == 0:
        client.step_data(sys.argv[2])
    client.batch()
    turn += 1
    time.sleep(max(0.0, 0.25 - (time.monotonic() - begun)))
"""
"""Asks as the page does of a run that goes on: batch, table and forces, each at its own pace."""


class Training:
    """The demo, step by step."""

    def __init__(self, run: Run, training: BclTraining) -> None:
        self._run, self._training = run, training
        self._batches = (batch for epoch in count() for batch in training.batches(epoch))
        self._index = 0

    def block(self, steps: int) -> float:
        """Seconds that so many steps take."""
        begun = time.perf_counter()
        for _ in range(steps):
            self._training._step(self._run, next(self._batches), self._index)
            self._index += 1
            self._run.controller.wait_if_paused()
        return time.perf_counter() - begun


@contextmanager
def polling(url: str, key: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that asks, as a browser is one."""
    child = subprocess.Popen(
        [sys.executable, "-c", POLLING, url, key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.kill()
        child.wait()


def tell(child: subprocess.Popen[str], word: str) -> None:
    """Switch the asking on or off."""
    assert child.stdin is not None
    child.stdin.write(f"{word}\n")
    child.stdin.flush()


def page_open(condition: Condition, key: str) -> Figure:
    """Steps of the demo, captured ten times a second while a page asks, against bare ones."""
    torch.set_num_threads(1)
    training = BclTraining(BclConfig(condition=condition, steps=10**8, health_every=10**8))
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder, model=training.model) as run,
        serve(run, port=0, save_dir=folder) as page,
        polling(str(page.url), key) as child,
    ):
        training.offer(run)
        run.controller.enter()
        loop = Training(run, training)
        steps = int(BLOCK_S / (loop.block(50) / 50))

        def watched() -> float:
            with run.controller.viewer():
                tell(child, "on")
                spent = loop.block(steps)
                tell(child, "off")
                return spent

        ratio = alternating_ratio(lambda: loop.block(steps), watched)
    percent = [100 * (value - 1) for value in ratio]
    return Figure(
        name=f"demo ({condition}), the page open: overhead",
        value=percent[0],
        low=percent[1],
        high=percent[2],
        unit="%",
        bar=5.0,
        note="captured ten times a second; table, batch and forces asked for",
    )


def matrix() -> list[Figure]:
    """All pairs of 2,048 rows, as the reader's thread computes them."""
    rows = np.random.default_rng(0).standard_normal((ROWS, 784))
    times: dict[str, list[float]] = {"averaged": [], "whole": [], "clustered": []}
    for _ in range(5):
        for name, work in (
            ("averaged", lambda: similarity(unit_rows(rows), cells=512)),
            ("whole", lambda: similarity(unit_rows(rows), cells=ROWS)),
            ("clustered", lambda: cluster_order(unit_rows(rows))),
        ):
            begun = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begun)
    return [
        Figure(
            name=f"cosines of {ROWS:,} rows of 784, {name}",
            value=statistics.median(spent),
            low=min(spent),
            high=max(spent),
            unit="s",
        )
        for name, spent in times.items()
    ]


def figures() -> list[Figure]:
    """The page open on two conditions, and the matrix."""
    return [page_open("novelty", "bcl_metrics"), page_open("control", "features"), *matrix()]
