"""A plain loop in a thread of its own, for tests that steer it from outside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from midstep.core.errors import ControlError
from midstep.live import AttachedRun

PATIENCE_S = 30.0


class Numbers(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sample i is the vector (i, i) with the label i."""

    def __init__(self, count: int = 24) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((2,), float(index)), torch.tensor(index)


class Plain:
    """Model, optimizer and loader of a loop that has nothing of ours in it."""

    def __init__(self, count: int = 24, **loader: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.loader = DataLoader(Numbers(count), **{"batch_size": 4, "shuffle": True} | loader)

    @property
    def parts(self) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
        return self.model, self.optimizer, self.loader

    def step(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def train(self, run: AttachedRun, epochs: int = 2, seen: list[list[int]] | None = None) -> None:
        for _ in run.epochs(epochs):
            for x, y in self.loader:
                if seen is not None:
                    seen.append(y.tolist())
                run.log(loss=self.step(x))


@contextmanager
def in_thread(attached: AttachedRun, body: Callable[[AttachedRun], object]) -> Iterator[None]:
    """Run `body` inside the attached block on a training thread; stop and join it in the end."""
    failures: list[BaseException] = []

    def train() -> None:
        try:
            with attached as run:
                body(run)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)

    thread = threading.Thread(target=train, name="training")
    thread.start()
    try:
        yield
    finally:
        with suppress(ControlError):  # it may be over already
            attached.controller.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the training thread did not end"
    if failures:
        raise failures[0]
