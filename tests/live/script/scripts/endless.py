"""Steps until it is stopped, or raises at the step given; hooks of the user are called."""

import sys

import torch

torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
limit = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
try:
    for step in range(limit):
        loss = net(torch.ones(3, 2) * step % 7).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise RuntimeError("the end of the data")
finally:
    print("finally", flush=True)
