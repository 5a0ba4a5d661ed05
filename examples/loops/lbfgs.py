"""LBFGS with a closure: one optimizer step evaluates the loss several times.

python examples/loops/lbfgs.py
"""

from __future__ import annotations

import os

import torch
from torch import nn

import midstep

STEPS = int(os.environ.get("STEPS", "12"))


def main() -> None:
    torch.manual_seed(0)
    x = torch.linspace(-2, 2, 64)[:, None]
    y = torch.sin(2 * x) + 0.05 * torch.randn(64, 1)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    with midstep.attach(model, optimizer, run_name="lbfgs", resume="auto") as run:
        for _step in run.steps(STEPS):
            run.batch(x, y)
            loss = optimizer.step(closure)
            run.log(loss=loss)
        print(f"{run.step} steps")


if __name__ == "__main__":
    main()
