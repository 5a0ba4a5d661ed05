"""SAC: the actor acts with gradients, two critics step each time, the actor twice in two."""

import random

import torch
from known import Known
from torch import nn

torch.manual_seed(13)
known = Known()


def net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = net(2, 1)

    def forward(self, x):
        return self.mean(x)

    def get_action(self, x):
        mean = self(x)
        return torch.tanh(mean + torch.randn_like(mean))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = net(3, 1)

    def forward(self, x, a):
        return self.value(torch.cat([x, a], 1))


actor, qf1, qf2, target = Actor(), Critic(), Critic(), Critic()
q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=0.01)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.02)
buffer, obs = [], torch.zeros(2)
for global_step in range(12):
    action = actor.get_action(obs[None]).detach()[0]
    next_obs = obs + torch.randn(2)
    buffer.append((obs, action, next_obs))
    obs = next_obs
    if global_step < 4:
        continue
    seen, actions, following = map(torch.stack, zip(*random.sample(buffer, 4), strict=True))
    with torch.no_grad():
        goal = 0.9 * target(following, actor.get_action(following)) - seen.square().sum(1, True)
    q_loss = sum(nn.functional.mse_loss(q(seen, actions), goal) for q in (qf1, qf2))
    q_optimizer.zero_grad()
    q_loss.backward()
    q_optimizer.step()
    more = {"loss.q_optimizer": q_loss.item(), "lr.q_optimizer": 0.01}
    weights = [*qf1.parameters(), *qf2.parameters()]
    known.step(weights, loss=q_loss, batch=(seen, actions), lr=0.01, **more)
    if global_step % 2 == 0:
        for _ in range(2):
            chosen = actor.get_action(seen)
            actor_loss = -torch.min(qf1(seen, chosen), qf2(seen, chosen)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
parts = [f"{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
names = ("actor.mean", "qf1.value", "qf2.value")
known.write(layers=[f"{name}.{part}" for name in names for part in parts])
