"""PPO on several CartPoles: a rollout, then several optimizer steps, with a falling learning rate.

    python examples/loops/cart_pole_ppo.py

The rate follows from the index of `run.steps`, so it is resumed and taken back without a scheduler:
`pip install gymnasium`.
"""

from __future__ import annotations

import os

import gymnasium as gym
import torch
from torch import nn

import midstep

UPDATES = int(os.environ.get("STEPS", "60"))
ENVIRONMENTS, HORIZON, PASSES, BATCH = 2, 16, 2, 16


class ActorCritic(nn.Module):
    """Logits of the actions, and the value."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(
        self, observations: torch.Tensor
    ) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        """The choice among the actions, and the value."""
        choice = torch.distributions.Categorical(logits=self.actor(observations))
        return choice, self.critic(observations)[..., 0]


def advantages_of(rewards: torch.Tensor, alive: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Generalised advantages [T, N]; `values` [T + 1, N] has one more, after the last move."""
    advantages, following = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for time in reversed(range(len(rewards))):
        error = rewards[time] + 0.99 * alive[time] * values[time + 1] - values[time]
        following = advantages[time] = error + 0.99 * 0.95 * alive[time] * following
    return advantages


def main() -> None:
    torch.manual_seed(0)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVIRONMENTS)
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    further = {"envs": midstep.env_state(envs)}
    with midstep.attach(
        net, optimizer, extra_state=further, run_name="cart_pole_ppo", resume="auto"
    ) as run:
        k = run.keep(observations=envs.reset(seed=3)[0])
        for update in run.steps(UPDATES):
            optimizer.param_groups[0]["lr"] = 3e-3 * (1 - update / UPDATES)
            seen, actions, log_probs, values, rewards, alive = [], [], [], [], [], []
            with torch.no_grad():
                for _ in range(HORIZON):
                    seen.append(torch.as_tensor(k.observations))
                    choice, value = net(seen[-1])
                    actions.append(choice.sample())
                    log_probs.append(choice.log_prob(actions[-1]))
                    values.append(value)
                    k.observations, reward, over, cut, _ = envs.step(actions[-1].numpy())
                    rewards.append(torch.as_tensor(reward, dtype=torch.float32))
                    alive.append(torch.as_tensor(~(over | cut)).float())
                values.append(net(torch.as_tensor(k.observations))[1])
            all_values = torch.stack(values)
            gains = advantages_of(torch.stack(rewards), torch.stack(alive), all_values)
            goals = (gains + all_values[:-1]).flatten()
            observations, goals = run.batch(torch.cat(seen), goals)
            taken, before, gains = torch.cat(actions), torch.cat(log_probs), gains.flatten()
            for _ in range(PASSES):
                for rows in torch.randperm(len(goals)).split(BATCH):
                    choice, expected = net(observations[rows])
                    ratio = (choice.log_prob(taken[rows]) - before[rows]).exp()
                    clipped = ratio.clamp(0.8, 1.2)
                    policy_loss = -torch.min(ratio * gains[rows], clipped * gains[rows]).mean()
                    loss = policy_loss + 0.5 * nn.functional.mse_loss(expected, goals[rows])
                    loss = loss - 0.01 * choice.entropy().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    optimizer.step()
                    run.log(loss=loss)
            run.log(length=float(sum(alive).mean()))
        print(f"{run.step} updates")
    envs.close()


if __name__ == "__main__":
    main()
