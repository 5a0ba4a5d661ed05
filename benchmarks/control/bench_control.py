"""What the controller costs a loop that nobody watches, and how fast a pause takes effect."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable

import torch

from benchmarks.figures import Figure, percentile, spread_of
from midstep.control import Command, DebugController
from midstep.session import Run

__all__ = ["figures"]

BLOCK = 20_000
LOGGED_STEPS = 1_000


def _empty_block() -> float:
    begun = time.perf_counter()
    for _ in range(BLOCK):
        pass
    return time.perf_counter() - begun


def _idle_block(controller: DebugController, batch: torch.Tensor) -> float:
    begun = time.perf_counter()
    for index in range(BLOCK):
        controller.capture_batch(batch, 0.5, index)
        controller.wait_if_paused()
    return time.perf_counter() - begun


def idle_cost() -> Figure:
    """Both call sites a step, nobody attached, less the cost of the empty loop."""
    controller, batch = DebugController(), torch.zeros(128, 784)
    blocks = [(_idle_block(controller, batch) - _empty_block()) / BLOCK * 1e6 for _ in range(60)]
    value, low, high = spread_of(blocks)
    return Figure(
        name="controller alone, idle, per step", value=value, unit="µs", low=low, high=high, bar=0.2
    )


def _log_block(log: Callable[..., None], end_step: Callable[[], bool]) -> float:
    """Microseconds of one call with eight scalars, without those of the step's end."""
    values = {f"metric{index}": float(index) for index in range(8)}
    spent = 0.0
    for _ in range(LOGGED_STEPS):
        begun = time.perf_counter()
        log(**values)
        spent += time.perf_counter() - begun
        end_step()
    return spent / LOGGED_STEPS * 1e6


def log_cost(rounds: int = 20) -> list[Figure]:
    """What the loop's own call costs, which also looks for pictures, texts and tables."""
    with tempfile.TemporaryDirectory() as folder, Run(name="log", save_dir=folder) as run:
        controller = run.controller
        calls = {"run.log": run.log, "controller.log": controller.log}
        costs = {
            name: spread_of([_log_block(log, controller.wait_if_paused) for _ in range(rounds)])
            for name, log in calls.items()
        }
    return [
        Figure(name=f"{name} of 8 scalars", value=value, unit="µs", low=low, high=high, bar=5.0)
        for name, (value, low, high) in costs.items()
    ]


def watch_cost(rounds: int = 20, block: int = 200) -> Figure:
    """Five rows of a 64×784 tensor followed, with their pairs and two metrics, in a bare loop."""
    controller, weight = DebugController(), torch.randn(64, 784)
    metrics = {"win_rate": torch.rand(64), "feature_novelty": torch.rand(64)}
    controller.watches.add_source("weight", lambda: weight)
    controller.watches.replace([0, 15, 31, 47, 63])
    costs = []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(block):
            controller.capture_step_data("metrics", metrics)
            controller.wait_if_paused()
        costs.append((time.perf_counter() - begun) / block * 1e6)
    value, low, high = spread_of(costs)
    return Figure(
        name="five watches on 64×784, per step", value=value, unit="µs", low=low, high=high
    )


def pause_latency(step_s: float = 0.010, rounds: int = 100) -> Figure:
    """From asking to standing, with steps of 10 ms; the bar is one step + 100 ms."""
    controller = DebugController()
    done = threading.Event()

    def train() -> None:
        going = controller.boundary.enter()
        while going:
            time.sleep(step_s)
            going = controller.wait_if_paused()
        done.set()

    thread = threading.Thread(target=train)
    thread.start()
    waits = []
    for _ in range(rounds):
        begun = time.perf_counter()
        controller.submit(Command(name="pause")).result(10)
        waits.append((time.perf_counter() - begun) * 1e3)
        controller.submit(Command(name="resume")).result(10)
        time.sleep(0.003)
    controller.stop()
    thread.join(10)
    return Figure(
        name="pause latency, steps of 10 ms, p99 (in process)",
        value=percentile(waits, 0.99),
        unit="ms",
        low=min(waits),
        high=max(waits),
        bar=step_s * 1e3 + 100,
        note=f"median {statistics.median(waits):.3g} ms",
    )


def figures() -> list[Figure]:
    """All figures of this module."""
    return [idle_cost(), *log_cost(), watch_cost(), pause_latency()]
