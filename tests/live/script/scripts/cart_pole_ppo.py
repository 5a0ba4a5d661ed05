"""PPO on CartPole: a policy acts without gradients, then several steps on parts of the rollout."""

import os

os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "hide"
import gymnasium as gym
import numpy as np
import torch
from known import Known
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def get_action_and_value(self, x, action=None):
        choice = torch.distributions.Categorical(logits=self.actor(x))
        action = choice.sample() if action is None else action
        return action, choice.log_prob(action), choice.entropy(), self.critic(x)[:, 0]


torch.manual_seed(19)
known = Known()
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
next_obs = torch.as_tensor(envs.reset(seed=1)[0])
for _update in range(2):
    rollout = []
    for _move in range(8):
        with torch.no_grad():
            action, log_prob, _, value = agent.get_action_and_value(next_obs)
        obs = next_obs
        next_obs, reward, over, cut, _ = envs.step(action.numpy())
        next_obs = torch.as_tensor(next_obs)
        rollout.append((obs, action, log_prob, torch.as_tensor(reward - value.numpy()).float()))
    b_obs, b_actions, b_log_probs, b_gains = map(torch.cat, zip(*rollout, strict=True))
    order = np.arange(len(b_obs))
    for _epoch in range(2):
        np.random.shuffle(order)
        for rows in np.split(order, 2):
            seen = b_obs[rows]
            _, log_prob, entropy, value = agent.get_action_and_value(seen, b_actions[rows])
            ratio = (log_prob - b_log_probs[rows]).exp() * b_gains[rows]
            loss = (value - 1).square().mean() - ratio.mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            known.step(agent.parameters(), loss=loss, batch=(seen,), lr=0.01)
parts = [f"{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
known.write(layers=[f"{net}.{part}" for net in ("critic", "actor") for part in parts])
