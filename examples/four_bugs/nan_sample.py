"""Bug 3: one image of the data, number 1234, contains NaN.

python examples/four_bugs/nan_sample.py     # then open the link it prints
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.data.sources.digits import load_digits


class SmallNet(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()
        self.conv2, self.relu2 = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU()
        self.fc = nn.Linear(8 * 14 * 14, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ten scores for each image."""
        x = self.relu2(self.conv2(self.relu1(self.conv1(x))))
        return self.fc(x.flatten(1))


torch.manual_seed(0)
digits = load_digits()
images = digits.images.clone()
images[1234, 0, 12:16] = float("nan")  # the bug: 0 / 0 in a file of the data
loader = DataLoader(TensorDataset(images, digits.labels), batch_size=64, shuffle=True)
model = SmallNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()

with midstep.attach(
    model, optimizer, loader, loss_fn=loss_fn, name="nan-sample", serve=True
) as run:
    run.controller.add_breakpoint("loss_nonfinite")
    for _ in run.epochs(6):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
