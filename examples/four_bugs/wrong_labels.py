"""Bug 4: five percent of the labels are wrong.

python examples/four_bugs/wrong_labels.py     # then open the link it prints
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.data.sources.digits import load_digits

torch.manual_seed(0)
digits = load_digits()
labels = digits.labels.clone()
wrong = torch.randperm(len(labels))[: len(labels) // 20]
labels[wrong] = (labels[wrong] + torch.randint(1, 10, wrong.shape)) % 10  # the bug
loader = DataLoader(TensorDataset(digits.images, labels), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()

with midstep.attach(
    model, optimizer, loader, loss_fn=loss_fn, name="wrong-labels", serve=True
) as run:
    run.controller.add_breakpoint("step", step=300)
    for _ in run.epochs(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
