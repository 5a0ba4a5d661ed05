"""What runtime metrics cost, at the interval that they choose; what `attach` and `Session` do."""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from benchmarks.figures import Figure, spread_of
from benchmarks.session.step_cost import step_costs
from midstep.control import DebugController
from midstep.session.metrics.runtime_metrics import RuntimeMetrics

__all__ = ["figures"]

BLOCK_S = 0.02
TURNS = 120
WARM_UP_STEPS = 100


class Training:
    """A multilayer perceptron that learns from one batch, over and over."""

    def __init__(self, width: int, batch: int, device: str) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        self.device = torch.device(device)
        self.model = nn.Sequential(*layers, nn.Linear(width, 10)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(batch, 64, device=self.device)
        self.labels = torch.randint(10, (batch,), device=self.device)
        self.steps = 0

    def step(self, watch: RuntimeMetrics | None) -> None:
        """One step, watched as `attach` does it, or not."""
        if watch is not None:
            watch.step_begins()
        logits = self.model(self.inputs)
        if watch is not None and watch.measuring:
            watch.outputs(logits, self.labels)
        loss: torch.Tensor = nn.functional.cross_entropy(logits, self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if watch is not None and watch.measuring:
            watch.before_step()
        self.optimizer.step()
        if watch is not None and watch.measuring:
            watch.after_step()
        self.optimizer.zero_grad()
        self.steps += 1
        if watch is not None:
            if not watch.is_untimed:
                watch.step_ended(step=self.steps, samples=len(self.labels))
            if watch.in_transfer:
                watch.arrived()

    def block(self, steps: int, watch: RuntimeMetrics | None) -> float:
        """Seconds that so many steps take; on the CPU those of this thread alone.

        What else runs on the machine would count otherwise, and is more than what is measured.
        """
        clock = time.perf_counter if self.device.type == "cuda" else time.thread_time
        begun = clock()
        for _ in range(steps):
            self.step(watch)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return clock() - begun


def overhead(width: int, batch: int, device: str = "cpu") -> Figure:
    """What being asked adds to each step, and a measured one, with the next, to every k-th.

    The two are measured apart, since blocks with one measured step among hundreds of others differ
    by more than that step adds. Three kinds of blocks take turns, and each turn gives one figure.
    """
    training = Training(width, batch, device)
    watch = RuntimeMetrics(training.model, training.optimizer, DebugController())
    training.block(WARM_UP_STEPS, watch)
    step_s = training.block(20, None) / 20
    turns = [_turn(training, watch, max(5, int(BLOCK_S / step_s))) for _ in range(TURNS)]
    watch.close()
    plain_s = statistics.median(plain for plain, _, _ in turns)
    percent = [
        100 * (asked - plain + (pair - 2 * plain) / watch.every) / plain
        for plain, asked, pair in turns
    ]
    value, low, high = spread_of(percent)
    asked_us = 1e6 * statistics.median(asked - plain for plain, asked, _ in turns)
    cost_us = 1e6 * statistics.median(pair - 2 * plain for plain, _, pair in turns)
    parameters = sum(each.numel() for each in training.model.parameters())
    return Figure(
        name=f"runtime metrics, {parameters / 1e6:.2f} M parameters, {device}: overhead",
        value=value,
        low=low,
        high=high,
        unit="%",
        bar=1.0,
        note=f"step {1000 * plain_s:.2f} ms; {asked_us:.1f} µs each, {cost_us:.0f} µs every "
        f"{watch.every} steps",
    )


def _turn(training: Training, watch: RuntimeMetrics, steps: int) -> tuple[float, float, float]:
    """Seconds of a plain step, of one that is not measured, and of a measured one with the next."""
    plain_s = training.block(steps, None) / steps
    watch._steps_left = max(watch._steps_left, steps + 1)  # none of these is to be measured
    asked_s = training.block(steps, watch) / steps
    plain_s = (plain_s + training.block(steps, None) / steps) / 2
    watch._steps_left = 1
    return plain_s, asked_s, training.block(2, watch)


def figures() -> list[Figure]:
    """A step of some milliseconds, a short one, and one so short that few are measured."""
    found = [
        overhead(width=512, batch=64),
        overhead(width=256, batch=64),
        overhead(width=64, batch=32),
    ]
    if torch.cuda.is_available():
        found.append(overhead(width=4096, batch=512, device="cuda"))
    return [*found, *step_costs()]
