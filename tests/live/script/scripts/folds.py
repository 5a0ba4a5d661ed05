"""Three trainings one after another, each with a model and an optimizer of its own."""

import torch
from known import Known
from torch import nn

torch.manual_seed(8)
known = Known()
data = torch.randn(12, 3)
for fold in range(3):
    model = nn.Linear(3, 1 + fold)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / (1 + fold))
    for _step in range(2):
        x = data[torch.randperm(12)[:4]]
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        known.step(model.parameters(), loss=loss, batch=(x,), lr=0.1 / (1 + fold))
known.write(layers=["weight", "bias"])
