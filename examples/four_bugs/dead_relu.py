"""Bug 2: a hidden layer starts with a bias so negative that most of its units never fire.

python examples/four_bugs/dead_relu.py     # then open the link it prints
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
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
model.append(nn.Linear(64, 10))
# The bug: meant for the last layer, and written as -3 for 0.3.
nn.init.constant_(model[3].bias[:48].data, -3.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()

with midstep.attach(model, optimizer, loader, loss_fn=loss_fn, name="dead-relu", serve=True) as run:
    run.controller.breakpoints.add_rule("dead_relus")
    for _ in run.epochs(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
