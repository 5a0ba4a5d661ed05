"""What hooks and rules cost a training: nothing while nobody watches, little while one does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.figures import Figure, alternating_ratio
from midstep.control import DebugController
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.control.capture.subscriptions import Need
from midstep.session import hooks
from midstep.session.hooks.hook_manager import HookManager

__all__ = ["figures"]

STEPS_A_BLOCK = 40
BATCH, INPUTS, HIDDEN = 128, 784, 256


class Training:
    """A small training of some milliseconds a step, with the two call sites in its loop."""

    def __init__(self, controller: DebugController | None = None) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = nn.Sequential(
            nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, INPUTS),
        )  # fmt: skip
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.batch = torch.rand(BATCH, INPUTS)
        self.controller = controller

    def step(self) -> None:
        """One step up to its boundary."""
        loss = nn.functional.mse_loss(self.model(self.batch), self.batch)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.controller is not None:
            self.controller.capture_batch(self.batch, loss)
        self.optimizer.step()
        if self.controller is not None:
            self.controller.wait_if_paused()

    def block(self) -> float:
        """Seconds that some steps take."""
        begun = time.perf_counter()
        for _ in range(STEPS_A_BLOCK):
            self.step()
        return time.perf_counter() - begun


def _all_hooks() -> list[hooks.Hook]:
    return [
        hooks.LayerNorms(),
        hooks.LayerNormSeries(),
        hooks.ActivationStatistics(),
        hooks.DeadUnits(),
        hooks.AttentionEntropy(),
        hooks.WeightCosine(),
        hooks.Units("0"),
    ]


@contextmanager
def hooked() -> Iterator[Training]:
    """The same training with every hook attached."""
    made = Training(DebugController())
    assert made.controller is not None
    board = HookManager(made.controller, made.model, made.optimizer, _must_not_fail)
    for hook in _all_hooks():
        board.add(hook)
    try:
        yield made
    finally:
        board.close()


def _must_not_fail(key: str, why: str) -> None:
    raise AssertionError(f"hook {key} was switched off: {why}")


def _ratio(name: str, arrange: Callable[[DebugController], object], bar: float | None) -> Figure:
    """Step time of the treated training over that of the bare one, in alternating blocks."""
    bare = Training()
    with hooked() as treated:
        assert treated.controller is not None
        arrange(treated.controller)
        for each in (bare, treated):
            each.block()
        value, low, high = alternating_ratio(bare.block, treated.block)
    return Figure(name=name, value=value, low=low, high=high, unit="×", bar=bar)


def _look(controller: DebugController) -> None:
    """Show batch and step data, and read them in every step: ten steps a second are captured."""
    controller.captures.viewer(Need(kind="batch", count=64), Need(kind="step_data"))
    controller.sinks.on_step_begin(lambda: _read(controller))


def _read(controller: DebugController) -> None:
    controller.captures.reader.shown()
    controller.captures.reader.read_samples(0, 64)


def _arm_all(controller: DebugController) -> None:
    for rule in RULES:
        controller.breakpoints.add_rule(rule, action="mark")


def _allocated(training: Training, steps: int = 10) -> float:
    """Bytes that the operations of a step allocate."""
    training.step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        for _ in range(steps):
            training.step()
    sizes = (event.self_cpu_memory_usage for event in record.events() or ())
    return float(sum(size for size in sizes if size > 0)) / steps


def memory() -> Figure:
    """Memory that a step allocates with every hook attached and nobody there, over the bare one."""
    bare = _allocated(Training())
    with hooked() as treated:
        value = _allocated(treated) / bare
    return Figure(
        name="all hooks attached, nobody watches: memory allocated a step",
        value=value,
        unit="×",
        bar=1.0,
        note=f"{bare / 2**20:.3g} MiB a step",
    )


def figures() -> list[Figure]:
    """All figures of this module."""
    return [
        _ratio("all hooks attached, nobody watches: step time", lambda _: None, 1.01),
        memory(),
        _ratio(
            "all hooks attached, a viewer at 10 Hz: step time",
            _look,
            None,
        ),
        _ratio("all rules armed to mark, nobody watches: step time", _arm_all, None),
    ]
