"""A loop of your own, made stoppable without a call in it: `attach` listens to what it has.

python examples/attach.py                # then open the link it prints
EPOCHS=1 python examples/attach.py
MIDSTEP_MODE=off python examples/attach.py    # the same bits, with nothing of midstep in it
"""

from __future__ import annotations

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep

EPOCHS = int(os.environ.get("EPOCHS", "200"))


def draw_spirals(count: int) -> TensorDataset:
    """Points on three noisy spiral arms, with the arm's number as label."""
    labels = torch.arange(count) % 3
    radius = torch.rand(count).sqrt()
    angle = 4 * radius + labels * (2 * torch.pi / 3) + 0.15 * torch.randn(count)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels)


def accuracy(model: nn.Module, points: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(points).argmax(dim=1) == labels).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    train, validation = draw_spirals(6000), draw_spirals(1000)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss()

    with midstep.attach(model, optimizer, loader, name="spirals", serve=True) as run:
        for _ in run.epochs(EPOCHS):
            for x, y in loader:
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
            run.log(val_accuracy=accuracy(model, *validation.tensors))

    print(f"validation accuracy {accuracy(model, *validation.tensors):.3f}")


if __name__ == "__main__":
    main()
