"""Bug 2: a hidden layer starts with a bias so negative that most of its units never fire.

python examples/four_bugs/dead_relu.py     # then open the link it prints
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.data.sources.digits import load_digits


class Perceptron(nn.Module):
    """Two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu1 = nn.Linear(784, 64), nn.ReLU()
        self.fc2, self.relu2 = nn.Linear(64, 64), nn.ReLU()
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ten scores for each image."""
        return self.fc3(self.relu2(self.fc2(self.relu1(self.fc1(x.flatten(1))))))


torch.manual_seed(0)
digits = load_digits()
loader = DataLoader(TensorDataset(digits.images, digits.labels), batch_size=64, shuffle=True)
model = Perceptron()
nn.init.constant_(model.fc2.bias.data[:48], -3.0)  # the bug: -0.03 was meant
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
