"""Trainings that a breakpoint stops, and the diagnosis of the stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from midstep.live import AttachedRun
from tests.checkers.neutral import wait_until
from tests.live.trainer import in_thread

NAN = float("nan")


@contextmanager
def stopped(
    attached: AttachedRun, body: Callable[[AttachedRun], object], *, kind: str = "loss_nonfinite"
) -> Iterator[dict[str, Any]]:
    """The diagnosis of the first stop, while the run is parked there."""
    control = attached.controller
    if kind:
        control.add_breakpoint(kind)
    with in_thread(attached, body):
        wait_until(control, lambda _: control.status.diagnosis is not None)
        yield control.status.diagnosis or {}


class Images(nn.Module):
    """A small convolution net."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()
        self.fc = nn.Linear(4 * 8 * 8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.relu1(self.conv1(x)).flatten(1))


class ImageLoop:
    """Classification of images; sample `bad` has two rows of NaN."""

    def __init__(self, bad: int = 37, count: int = 64, **loader: Any) -> None:
        torch.manual_seed(0)
        self.x = torch.rand(count, 1, 8, 8)
        if bad >= 0:
            self.x[bad, 0, 3:5] = NAN
        self.y = torch.randint(0, 10, (count,))
        data = torch.utils.data.TensorDataset(self.x, self.y)
        self.loader = torch.utils.data.DataLoader(data, **{"batch_size": 8} | loader)
        self.model = Images()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.loss_fn = nn.CrossEntropyLoss()

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        return self.model, self.optimizer, self.loader

    def train(self, run: AttachedRun, epochs: int = 1) -> None:
        for _ in run.epochs(epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                run.log(loss=loss)
