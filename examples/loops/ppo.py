"""PPO: a rollout, then several optimizer steps on it; all of that is one step of the run.

    python examples/loops/ppo.py

The environment goes on from one rollout to the next, so its state and the last observation are part
of the state of the run.
"""

from __future__ import annotations

import os

import torch
from corridor import LENGTH, Corridor
from torch import nn

import midstep

UPDATES = int(os.environ.get("STEPS", "12"))
ROLLOUT, PASSES, BATCH = 32, 2, 16


class ActorCritic(nn.Module):
    """Logits of the actions, and the value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and value."""
        hidden = self.body(observation)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


def main() -> None:
    torch.manual_seed(0)
    env, net = Corridor(seed=2), ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    with midstep.attach(
        net, optimizer, extra_state={"env": env}, run_name="ppo", resume="auto"
    ) as run:
        k = run.keep(observation=env.reset())
        for _update in run.steps(UPDATES):
            seen, actions, log_probs, rewards, ends = [], [], [], [], []
            with torch.no_grad():
                for _ in range(ROLLOUT):
                    logits, _value = net(k.observation)
                    choice = torch.distributions.Categorical(logits=logits)
                    action = choice.sample()
                    seen.append(k.observation)
                    actions.append(action)
                    log_probs.append(choice.log_prob(action))
                    k.observation, reward, is_over = env.step(int(action))
                    rewards.append(reward)
                    ends.append(is_over)
                    if is_over:
                        k.observation = env.reset()
            returns, following = [], 0.0
            for reward, is_over in zip(reversed(rewards), reversed(ends), strict=True):
                following = reward + 0.95 * following * (not is_over)
                returns.insert(0, following)
            observations, targets = run.batch(torch.stack(seen), torch.tensor(returns))
            chosen, before = torch.stack(actions), torch.stack(log_probs)
            for _ in range(PASSES):
                for rows in torch.randperm(ROLLOUT).split(BATCH):
                    logits, values = net(observations[rows])
                    choice = torch.distributions.Categorical(logits=logits)
                    advantage = targets[rows] - values.detach()
                    ratio = (choice.log_prob(chosen[rows]) - before[rows]).exp()
                    gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                    loss = -gain.mean() + nn.functional.mse_loss(values, targets[rows])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    run.log(loss=loss)
            run.log(reward=sum(rewards) / max(1, sum(ends)))
        print(f"{run.step} updates")


if __name__ == "__main__":
    main()
