"""Compiles a function before there is an optimizer; a hook inside would break its graph."""

import torch
from known import Known
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(14)
known = Known()
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


@torch.compile(backend="eager", fullgraph=True)
def loss_of(x):
    return model(x).square().mean()


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(3):
    loss = loss_of(torch.randn(4, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.step(model.parameters(), loss=loss, batch=(), lr=0.1)
names = [f"{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
known.write(layers=names, graphs=counters["stats"]["unique_graphs"])
