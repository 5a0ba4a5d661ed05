"""What recording and viewing cost a real loop, and how fast many viewers are told."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.figures import Figure, alternating_ratio
from midstep.live import serve
from midstep.session import Run

__all__ = ["figures"]

STEP_S = 0.010
STEPS_A_BLOCK = 20
SCALARS = {f"metric_{i:02d}": 0.1 * i for i in range(20)}


class Work:
    """A step of about 10 ms of matrix products on one thread, as a training step is."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._matrix = torch.randn(256, 256)
        self._rounds = 1
        while self._once() < STEP_S:
            self._rounds = int(self._rounds * 1.3) + 1
        self._rounds = max(1, int(self._rounds * STEP_S / self._once()))

    def _once(self) -> float:
        begun = time.perf_counter()
        self.step()
        return time.perf_counter() - begun

    def step(self) -> None:
        """One step's work."""
        for _ in range(self._rounds):
            torch.mm(self._matrix, self._matrix)


def _plain_block(work: Work) -> float:
    begun = time.perf_counter()
    for _ in range(STEPS_A_BLOCK):
        work.step()
    return time.perf_counter() - begun


def _recorded_block(work: Work, run: Run) -> float:
    batch = torch.zeros(128, 784)
    begun = time.perf_counter()
    for _ in range(STEPS_A_BLOCK):
        work.step()
        run.log(**SCALARS)
        run.controller.capture_batch(batch, 0.5)
        run.controller.wait_if_paused()
    return time.perf_counter() - begun


@contextmanager
def viewers(url: str, count: int, seconds: float = 600.0) -> Iterator[subprocess.Popen[str]]:
    """`count` stream readers in a process of their own, as browsers are."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server.viewers", url, str(count), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "connected"
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def served_run() -> Iterator[tuple[Run, str]]:
    """A run on the page, and the page's address."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0) as page,
    ):
        assert page.url is not None  # MIDSTEP_MODE is not set where we measure
        yield run, page.url


def _overhead(count: int, bar: float) -> Figure:
    work = Work()
    with served_run() as (run, url), viewers(url, count):
        ratio = alternating_ratio(lambda: _plain_block(work), lambda: _recorded_block(work, run))
    percent = [100 * (value - 1) for value in ratio]
    return Figure(
        name=f"20 scalars per 10 ms step, {count or 'no'} viewers: overhead",
        value=percent[0],
        low=percent[1],
        high=percent[2],
        unit="%",
        bar=bar,
    )


def told_by_viewers(run: Run, child: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    """What they saw of 1,000 scalars a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run.log(**SCALARS, sent_at=time.monotonic())
        run.controller.wait_if_paused()
        time.sleep(0.02)
    assert child.stdout is not None
    told: dict[str, Any] = json.loads(child.stdout.readline())
    return told


def latency_of(each: str, told: dict[str, Any]) -> Figure:
    """How long a scalar takes to a viewer."""
    return Figure(
        name=f"{each}: latency p99",
        value=told["p99_ms"],
        unit="ms",
        bar=500,
        low=told["p50_ms"],
        high=told["max_ms"],
        note="noise column: median – largest",
    )


def fan_out(count: int = 50, seconds: float = 15.0) -> list[Figure]:
    """1,000 scalars a second to fifty viewers: frames a second, latency, gaps."""
    with served_run() as (run, url), viewers(url, count, seconds) as child:
        told = told_by_viewers(run, child, seconds)
    each = f"fan-out, {count} viewers, 1,000 scalars/s"
    return [
        latency_of(each, told),
        Figure(
            name=f"{each}: scalar frames a second and viewer",
            value=told["frames_per_s"],
            unit="frames/s",
            bar=10,
        ),
        Figure(
            name=f"{each}: rows missing or doubled",
            value=told["gaps"],
            unit="rows",
            bar=0,
            note=f"{told['rows']} rows seen by all viewers together",
        ),
    ]


def figures() -> list[Figure]:
    """All figures of this module."""
    return [_overhead(0, 2.0), _overhead(10, 5.0), *fan_out()]
