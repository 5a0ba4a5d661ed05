"""A block that is compiled in place, in a model whose `forward` is never called."""

import torch
from known import Known
from torch import nn
from torch._dynamo.utils import counters


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.block = Block()
        self.block.compile(backend="eager", fullgraph=True)

    def loss(self, x):
        return self.block(self.first(x)).square().mean()


torch.manual_seed(15)
known = Known()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(3):
    x = torch.randn(4, 3)
    loss = model.loss(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.step(model.parameters(), loss=loss, batch=(x,), lr=0.1)
names = [f"{part}.{kind}" for part in ("first", "block.layer") for kind in ("weight", "bias")]
known.write(layers=names, graphs=counters["stats"]["unique_graphs"])
