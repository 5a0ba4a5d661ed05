"""REINFORCE on several CartPoles at once, with a policy, a baseline and an optimizer for each.

    python examples/loops/cart_pole_reinforce.py

The vector of environments, the wrapper that counts its episodes, and both optimizers are part of
the state: `pip install gymnasium`.
"""

from __future__ import annotations

import os

import gymnasium as gym
import torch
from torch import nn

import midstep

ITERATIONS = int(os.environ.get("STEPS", "100"))
ENVIRONMENTS, HORIZON = 3, 12


def main() -> None:
    torch.manual_seed(0)
    envs = gym.wrappers.vector.RecordEpisodeStatistics(
        gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVIRONMENTS)
    )
    nets = {
        "policy": nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)),
        "baseline": nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)),
    }
    optimizers = {
        "policy": torch.optim.Adam(nets["policy"].parameters(), lr=3e-3),
        "baseline": torch.optim.Adam(nets["baseline"].parameters(), lr=1e-2),
    }
    further = {"envs": midstep.env_state(envs)}
    with midstep.attach(
        nets, optimizers, extra_state=further, run_name="cart_pole_reinforce", resume="auto"
    ) as run:
        k = run.keep(observations=envs.reset(seed=3)[0])
        for _step in run.steps(ITERATIONS):
            seen, taken, rewards, alive = [], [], [], []
            for _ in range(HORIZON):
                seen.append(torch.as_tensor(k.observations))
                with torch.no_grad():
                    choice = torch.distributions.Categorical(logits=nets["policy"](seen[-1]))
                taken.append(choice.sample())
                k.observations, reward, over, cut, _ = envs.step(taken[-1].numpy())
                rewards.append(torch.as_tensor(reward, dtype=torch.float32))
                alive.append(torch.as_tensor(~(over | cut)).float())
            returns = [nets["baseline"](torch.as_tensor(k.observations))[:, 0].detach()]
            for reward, goes_on in zip(reversed(rewards), reversed(alive), strict=True):
                returns.append(reward + 0.99 * goes_on * returns[-1])
            observations, actions, goals = run.batch(
                torch.cat(seen), torch.cat(taken), torch.cat(returns[:0:-1])
            )
            expected = nets["baseline"](observations)[:, 0]
            baseline_loss = nn.functional.mse_loss(expected, goals)
            chosen = torch.distributions.Categorical(logits=nets["policy"](observations))
            advantage = (goals - expected).detach()
            loss = -(chosen.log_prob(actions) * advantage).mean()
            for name, each in {"baseline": baseline_loss, "policy": loss}.items():
                optimizers[name].zero_grad()
                each.backward()
                optimizers[name].step()
            run.log(loss=loss, baseline_loss=baseline_loss, length=float(sum(alive).mean()))
        print(f"{run.step} steps")
    envs.close()


if __name__ == "__main__":
    main()
