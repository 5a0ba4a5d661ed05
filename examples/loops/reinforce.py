"""REINFORCE: one episode, then one optimizer step.

    python examples/loops/reinforce.py

The environment is declared, and the running mean of the rewards is kept, so both move with the run.
"""

from __future__ import annotations

import os

import torch
from corridor import LENGTH, Corridor
from torch import nn

import midstep

EPISODES = int(os.environ.get("STEPS", "40"))


def main() -> None:
    torch.manual_seed(0)
    env = Corridor(seed=1)
    policy = nn.Sequential(nn.Linear(LENGTH, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    with midstep.attach(
        policy, optimizer, extra_state={"env": env}, run_name="reinforce", resume="auto"
    ) as run:
        k = run.keep(mean_reward=0.0)
        for _episode in run.steps(EPISODES):
            observation, is_over = env.reset(), False
            log_probs, rewards = [], []
            while not is_over:
                choice = torch.distributions.Categorical(logits=policy(observation))
                action = choice.sample()
                observation, reward, is_over = env.step(int(action))
                log_probs.append(choice.log_prob(action))
                rewards.append(reward)
            total = sum(rewards)
            k.mean_reward = 0.95 * k.mean_reward + 0.05 * total
            loss = -torch.stack(log_probs).sum() * (total - k.mean_reward)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss, reward=total, mean_reward=k.mean_reward)
        print(f"{run.step} episodes, mean reward {k.mean_reward:.3f}")


if __name__ == "__main__":
    main()
