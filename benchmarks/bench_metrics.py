"""What runtime metrics cost a training, at the interval that they choose for themselves."""

from __future__ import annotations

import time

import torch
from torch import nn

from benchmarks.figures import Figure, alternating_ratio
from midstep.session.runtime_metrics import RuntimeMetrics

__all__ = ["figures"]

BLOCK_S = 0.25
WARM_UP_STEPS = 300


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

    def step(self, metrics: RuntimeMetrics | None) -> None:
        """One step, measured or not."""
        if metrics is not None:
            metrics.step_begins()
        logits = self.model(self.inputs)
        if metrics is not None:
            metrics.outputs(logits, self.labels)
        loss: torch.Tensor = nn.functional.cross_entropy(logits, self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if metrics is not None:
            metrics.before_step()
        self.optimizer.step()
        if metrics is not None:
            metrics.after_step()
        self.optimizer.zero_grad()
        self.steps += 1
        if metrics is not None:
            metrics.step_ended(step=self.steps, samples=len(self.labels))
            metrics.arrived()

    def block(self, steps: int, metrics: RuntimeMetrics | None) -> float:
        """Seconds that so many steps take; on the CPU those of this thread alone.

        What else runs on the machine would count otherwise, and is more than what is measured.
        """
        clock = time.perf_counter if self.device.type == "cuda" else time.thread_time
        begun = clock()
        for _ in range(steps):
            self.step(metrics)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return clock() - begun


def overhead(width: int, batch: int, device: str = "cpu", *, bar: float | None = 1.0) -> Figure:
    """The median ratio of alternating blocks, each long enough for some measured steps."""
    training = Training(width, batch, device)
    metrics = RuntimeMetrics(training.model, training.optimizer)
    step_s = training.block(20, None) / 20
    training.block(min(WARM_UP_STEPS, int(4 * BLOCK_S / step_s)), metrics)
    steps = max(int(BLOCK_S / step_s), metrics.every)
    ratio = alternating_ratio(
        lambda: training.block(steps, None), lambda: training.block(steps, metrics)
    )
    metrics.close()
    percent = [100 * (value - 1) for value in ratio]
    parameters = sum(each.numel() for each in training.model.parameters())
    return Figure(
        name=f"runtime metrics, {parameters / 1e6:.2f} M parameters, {device}: overhead",
        value=percent[0],
        low=percent[1],
        high=percent[2],
        unit="%",
        bar=bar,
        note=f"step {1000 * step_s:.2f} ms, measured every {metrics.every} steps",
    )


def figures() -> list[Figure]:
    """A step of some milliseconds, and one so short that few are measured.

    For that one there is no bar: what is left is a dozen calls a step, measured or not.
    """
    found = [
        overhead(width=512, batch=64),
        overhead(width=64, batch=32, bar=None),
    ]
    if torch.cuda.is_available():
        found.append(overhead(width=4096, batch=512, device="cuda"))
    return found
