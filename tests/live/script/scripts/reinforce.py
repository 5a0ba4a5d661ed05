"""REINFORCE on a small environment: no DataLoader, one backward pass for an episode."""

import random

import torch
from known import Known
from torch import nn

torch.manual_seed(5)
known = Known()
policy = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _episode in range(4):
    state, chances, rewards, seen = [0.0, random.random()], [], [], []
    for _move in range(5):
        observation = torch.tensor([state])
        seen.append(observation)
        choice = torch.distributions.Categorical(logits=policy(observation))
        action = choice.sample()
        chances.append(choice.log_prob(action))
        state = [state[0] + (0.1 if action.item() else -0.1), random.random()]
        rewards.append(-abs(state[0]))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.cat(chances) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.step(policy.parameters(), loss=loss, batch=(torch.cat(seen),), lr=1e-2)
known.write(layers=[f"{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")])
