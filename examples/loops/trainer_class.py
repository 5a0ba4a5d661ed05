"""A trainer class with callbacks, whose loop is a `while` inside a method.

    python examples/loops/trainer_class.py

Only the `while` becomes a `for` over `run.steps`; callbacks are called as before.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import midstep

STEPS = int(os.environ.get("STEPS", "30"))


class Trainer:
    """Trains a model on random batches of a dataset.

    Args:
        model: what is trained.
        data: rows of inputs and targets.
    """

    def __init__(self, model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.model, self.data = model, data
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.callbacks: dict[str, list[Callable[[Trainer], None]]] = defaultdict(list)
        self.loss = torch.zeros(())

    def add_callback(self, event: str, callback: Callable[[Trainer], None]) -> None:
        """Call `callback(trainer)` at an event."""
        self.callbacks[event].append(callback)

    def trigger(self, event: str) -> None:
        """Call what was registered for an event."""
        for callback in self.callbacks[event]:
            callback(self)

    def run(self, steps: int, **settings: Any) -> int:
        """Train; returns how many steps were made."""
        with midstep.attach(self.model, self.optimizer, **settings) as run:
            for _step in run.steps(steps):
                rows = torch.randint(len(self.data[0]), (8,))
                x, y = run.batch(self.data[0][rows], self.data[1][rows])
                self.loss = nn.functional.mse_loss(self.model(x), y)
                self.model.zero_grad(set_to_none=True)
                self.loss.backward()
                self.optimizer.step()
                run.log(loss=self.loss)
                self.trigger("on_batch_end")
        return run.step


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    trainer = Trainer(model, (x, x.prod(1, keepdim=True)))
    losses: list[float] = []
    trainer.add_callback("on_batch_end", lambda trainer: losses.append(trainer.loss.item()))
    print(f"{trainer.run(STEPS, run_name='trainer', resume='auto')} steps")


if __name__ == "__main__":
    main()
