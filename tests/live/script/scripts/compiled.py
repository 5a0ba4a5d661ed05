"""Compiles its model after it has made the optimizer, and a function beside it."""

import torch
from known import Known
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(11)
known = Known()
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.compile(model, backend="eager")
for _step in range(3):
    x = torch.randn(4, 3)
    loss = fast(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.step(model.parameters(), loss=loss, batch=(x,), lr=0.1)


@torch.compile(backend="eager")
def loss_of(x):
    return model(x).square().mean()


for _step in range(2):
    loss_of(torch.randn(4, 3))
names = [f"_orig_mod.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
breaks = {name: dict(counters[name]) for name in ("graph_break", "unimplemented", "frames")}
known.write(layers=names, compiled=breaks, graphs=counters["stats"]["unique_graphs"])
