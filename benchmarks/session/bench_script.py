"""What `midstep run` costs a script: steps of 5 ms with and without it, in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.figures import Figure, alternating_ratio
from midstep.live.script.program.script_command import ScriptCommand
from midstep.live.script.watched_script import WatchedScript

__all__ = ["figures"]

STEP_S = 0.005
STEPS_A_BLOCK = 40
LAYERS = 12


class Endless(torch.utils.data.IterableDataset[torch.Tensor]):
    """One batch again and again. An epoch would end in an fsync, which short ones make costly."""

    def __init__(self, width: int) -> None:
        self._batch = torch.randn(64, width)

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield self._batch


class Script:
    """A loop over a DataLoader, as a script has it: a step takes about 5 ms on one thread."""

    def __init__(self, width: int | None = None) -> None:
        torch.set_num_threads(1)
        self.width = width or 64
        while self._build() < STEP_S and width is None:
            self.width = int(self.width * 1.15)

    def _build(self) -> float:
        """Build the parts at the present width; returns the seconds of a step."""
        layers = [
            nn.Sequential(nn.Linear(self.width, self.width), nn.ReLU()) for _ in range(LAYERS)
        ]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.loader = torch.utils.data.DataLoader(Endless(self.width), batch_size=None)
        self.batches = iter(self.loader)
        self.block()
        return self.block() / STEPS_A_BLOCK

    def block(self) -> float:
        """Seconds of a block of steps."""
        begun = time.perf_counter()
        for _ in range(STEPS_A_BLOCK):
            loss = self.model(next(self.batches)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return time.perf_counter() - begun


def figures() -> list[Figure]:
    """All figures of this module."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Script()
        watched = WatchedScript(ScriptCommand(target="bench.py", save_dir=folder))
        watched.begin()
        script = Script(bare.width)
        steps = watched.steps

        def block_of(each: Script) -> float:
            # The functions of torch stay replaced while the bare loop runs, which costs it some
            # 2 µs a step: without `steps` each of them calls the usual one at once.
            watched.steps = steps if each is script else None
            return each.block()

        ratio = alternating_ratio(lambda: block_of(bare), lambda: block_of(script))
        watched.steps = steps
        watched.end(None)
    percent = [100 * (value - 1) for value in ratio]
    return [
        Figure(
            name="midstep run, 12 layers, 5 ms a step, page open, nothing in view: overhead",
            value=percent[0],
            low=percent[1],
            high=percent[2],
            unit="%",
            bar=5,
        )
    ]
