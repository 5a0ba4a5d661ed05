"""PPO on an environment in NumPy: policy and value have an optimizer each, and no DataLoader."""

import numpy as np
import torch
from known import Known
from torch import nn

torch.manual_seed(23)
known = Known()


class Points:
    """Points that an action pulls to the origin; draws from the global generator of NumPy."""

    def reset(self):
        self.places = np.random.randn(4, 2).astype(np.float32)
        return self.places

    def step(self, action):
        noise = 0.01 * np.random.randn(4, 2)
        self.places = (self.places + 0.1 * action + noise).astype(np.float32)
        return self.places, -np.square(self.places).sum(1, dtype=np.float32)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return torch.distributions.Normal(self.mean(x), self.log_std.exp())


env, actor = Points(), Actor()
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optim_pi = torch.optim.Adam(actor.parameters(), lr=0.003)
optim_v = torch.optim.RMSprop(critic.parameters(), lr=0.01)
for _iteration in range(2):
    seen, rollout = torch.from_numpy(env.reset()), []
    for _move in range(8):
        with torch.no_grad():
            choice, value = actor(seen), critic(seen)[:, 0]
        action = choice.sample()
        places, reward = env.step(action.numpy())
        log_prob = choice.log_prob(action).sum(1)
        rollout.append((seen, action, log_prob, torch.from_numpy(reward), value))
        seen = torch.from_numpy(places)
    states, actions, log_probs, rewards, values = map(torch.cat, zip(*rollout, strict=True))
    gains = rewards - values
    for rows in torch.randperm(len(states)).split(8):
        batch = states[rows]
        ratio = (actor(batch).log_prob(actions[rows]).sum(1) - log_probs[rows]).exp()
        clipped = ratio.clamp(0.8, 1.2) * gains[rows]
        loss = -torch.min(ratio * gains[rows], clipped).mean()
        optim_pi.zero_grad()
        loss.backward()
        optim_pi.step()
        loss_v = (critic(batch)[:, 0] - rewards[rows]).square().mean()
        optim_v.zero_grad()
        loss_v.backward()
        optim_v.step()
        more = {"loss.optim_v": loss_v.item(), "lr.optim_v": 0.01}
        weights = [*actor.parameters(), *critic.parameters()]
        known.step(weights, loss=loss, batch=(batch,), lr=0.003, **more)
parts = [f"{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
known.write(
    layers=[
        "actor.log_std",
        *(f"{net}.{part}" for net in ("actor.mean", "critic") for part in parts),
    ],
    optimizers=["Adam", "RMSprop"],
)
