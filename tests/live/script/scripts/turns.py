"""Two agents that train in turns; each has its own model and optimizer."""

import torch
from known import Known
from torch import nn


class Agent:
    def __init__(self, width):
        self.net = nn.Linear(width, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.losses = []

    def learn(self):
        loss = self.net(torch.randn(4, self.net.in_features)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


torch.manual_seed(17)
known = Known()
agents = [Agent(2), Agent(3)]
for _round in range(4):
    for agent in agents:
        agent.learn()
known.write(losses=[agent.losses for agent in agents])
