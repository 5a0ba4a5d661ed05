"""An endless loader with `.next()` around a `DataLoader`, counted by `run.steps`.

    python examples/loops/infinite_loader.py

The `DataLoader` inside is given to `attach`, so its order is part of the state. Its iterator is
made after that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep

STEPS = int(os.environ.get("STEPS", "30"))


class InfiniteLoader:
    """Batches without an end: a new pass begins when one is over."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.batches: Iterator[Any] | None = None

    def next(self) -> Any:
        """The next batch."""
        if self.batches is None:
            self.batches = iter(self.loader)
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    batches = InfiniteLoader(loader)
    with midstep.attach(model, optimizer, loader, run_name="infinite", resume="auto") as run:
        for _step in run.steps(STEPS):
            inputs, targets = batches.next()
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
        print(f"{run.step} steps")


if __name__ == "__main__":
    main()
