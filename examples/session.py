"""A training by `midstep.Session`: stop it anywhere, kill it, start it again, and it goes on.

python examples/session.py                # then open the link it prints
EPOCHS=2 python examples/session.py
kill -9 it and start it again: the same losses as if nothing had happened
"""

from __future__ import annotations

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep

EPOCHS = int(os.environ.get("EPOCHS", "100"))


def draw_rings(count: int) -> TensorDataset:
    """Points on two noisy rings, with the ring's number as label."""
    labels = torch.arange(count) % 2
    angle = 2 * torch.pi * torch.rand(count)
    radius = 1.0 + labels + 0.2 * torch.randn(count)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels)


def main() -> None:
    torch.manual_seed(0)
    train, validation = draw_rings(4000), draw_rings(1000)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = midstep.Session(
        model,
        optimizer,
        nn.CrossEntropyLoss(),
        DataLoader(train, batch_size=64, shuffle=True),
        DataLoader(validation, batch_size=500),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS),
        config=midstep.SessionConfig(
            run_name="rings",
            resume="auto",
            seed=0,
            data_order_policy="epoch_reseed",
            checkpoint_every_steps=50,
        ),
    )
    with session, midstep.serve(session) as page:
        print(f"training at {page.url}")
        session.fit(epochs=EPOCHS)
        print(f"{session.trainer.step} steps, run {session.dir}")


if __name__ == "__main__":
    main()
