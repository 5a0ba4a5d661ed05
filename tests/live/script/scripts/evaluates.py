"""Makes two steps, evaluates until a file exists, then makes steps until it is stopped."""

from pathlib import Path

import torch

net = torch.nn.Linear(2, 1)
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=1)


def closure():
    loss = net(torch.ones(3, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    return loss


optimizer.step(closure)
optimizer.step(closure)
with torch.no_grad():
    while not Path("enough").exists():
        net(torch.ones(3, 2))
while True:
    optimizer.step(closure)
