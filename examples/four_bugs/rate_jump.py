"""Bug 1: a schedule multiplies the learning rate by 80 at step 300.

python examples/four_bugs/rate_jump.py     # then open the link it prints
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.data.sources.digits import load_digits

torch.manual_seed(0)
digits = load_digits()
loader = DataLoader(TensorDataset(digits.images, digits.labels), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
# The bug: 0.8 was meant.
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 if done < 299 else 80)
loss_fn = nn.CrossEntropyLoss()

with midstep.attach(
    model, optimizer, loader, scheduler=schedule, loss_fn=loss_fn, name="rate-jump", serve=True
) as run:
    run.controller.add_breakpoint("loss_z", limit=6)
    for _ in run.epochs(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            run.log(loss=loss)
