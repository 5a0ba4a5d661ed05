"""REINFORCE on CartPole: what an episode was is kept in attributes of the policy."""

import os

os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
import gymnasium as gym
import torch
from known import Known
from torch import nn

torch.manual_seed(29)
known = Known()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Tanh(), nn.Linear(8, 2))
        self.seen, self.log_probs, self.rewards = [], [], []

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.net(x))


env, policy = gym.make("CartPole-v1"), Policy()
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
for episode in range(4):
    state, is_over = env.reset(seed=episode)[0], False
    while not is_over and len(policy.rewards) < 20:
        policy.seen.append(torch.from_numpy(state)[None])
        choice = policy(policy.seen[-1])
        action = choice.sample()
        policy.log_probs.append(choice.log_prob(action))
        state, reward, is_over, *_ = env.step(action.item())
        policy.rewards.append(reward)
    returns = torch.tensor(policy.rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.cat(policy.log_probs) * (returns - returns.mean())).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    rate = opt.param_groups[0]["lr"]
    known.step(policy.parameters(), loss=loss, batch=(torch.cat(policy.seen),), lr=rate)
    schedule.step()
    del policy.seen[:], policy.log_probs[:], policy.rewards[:]
known.write(layers=[f"net.{i}.{kind}" for i in (0, 3) for kind in ("weight", "bias")])
