"""DQN: the network is called with gradients to act; a copy of it is the target; one step in two."""

import copy
import random

import torch
from known import Known
from torch import nn

LEARNING_RATE = 1e-2

torch.manual_seed(9)
known = Known()


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.network(x)


q_network = QNetwork()
optimizer = torch.optim.Adam(q_network.parameters(), lr=LEARNING_RATE)
target_network = copy.deepcopy(q_network)
buffer, obs = [], torch.zeros(2)
for global_step in range(20):
    action = torch.argmax(q_network(obs[None]), dim=1).item()
    next_obs = obs + torch.randn(2)
    buffer.append((obs, action, float(next_obs.norm()), next_obs))
    obs = next_obs
    if global_step >= 8 and global_step % 2 == 0:
        batch = random.sample(buffer, 4)
        observations = torch.stack([each[0] for each in batch])
        with torch.no_grad():
            best = target_network(torch.stack([each[3] for each in batch])).max(1).values
            target = torch.tensor([each[2] for each in batch]) + 0.9 * best
        actions = torch.tensor([[each[1]] for each in batch])
        value = q_network(observations).gather(1, actions).squeeze(1)
        loss = nn.functional.mse_loss(target, value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        known.step(q_network.parameters(), loss=loss, batch=(observations,), lr=LEARNING_RATE)
        if global_step % 4 == 0:
            target_network.load_state_dict(q_network.state_dict())
parts = ("network.0.weight", "network.0.bias", "network.2.weight", "network.2.bias")
known.write(layers=list(parts))
