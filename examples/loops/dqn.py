"""DQN with a replay buffer: the first iterations fill the buffer and make no optimizer step.

    python examples/loops/dqn.py

Every iteration is a boundary: the run can be paused and resumed also before the first step.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from corridor import LENGTH, Corridor
from torch import nn

import midstep

ITERATIONS = int(os.environ.get("STEPS", "120"))
FILL, TRAIN_EVERY, SYNC_EVERY, BATCH = 30, 2, 20, 16


class ReplayBuffer:
    """The last transitions, in tensors that are written in a circle.

    Args:
        size: how many transitions it holds.
    """

    def __init__(self, size: int = 200) -> None:
        self.data = {
            "observation": torch.zeros(size, LENGTH),
            "next": torch.zeros(size, LENGTH),
            "action": torch.zeros(size, dtype=torch.long),
            "reward": torch.zeros(size),
            "over": torch.zeros(size),
        }
        self.size, self.count = size, 0

    def add(self, **transition: Any) -> None:
        """Write one transition over the oldest."""
        for name, value in transition.items():
            self.data[name][self.count % self.size] = value
        self.count += 1

    def sample(self, n: int) -> dict[str, torch.Tensor]:
        """`n` random transitions."""
        rows = torch.randint(min(self.count, self.size), (n,))
        return {name: values[rows] for name, values in self.data.items()}

    def state_dict(self) -> dict[str, Any]:
        """The tensors and the position."""
        return {"data": dict(self.data), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        for name, values in state["data"].items():
            self.data[name].copy_(values)
        self.count = state["count"]


def main() -> None:
    torch.manual_seed(0)
    env, buffer = Corridor(seed=3), ReplayBuffer()
    net = nn.Sequential(nn.Linear(LENGTH, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    further = {"env": env, "buffer": buffer, "target": target}
    with midstep.attach(net, optimizer, extra_state=further, run_name="dqn", resume="auto") as run:
        k = run.keep(observation=env.reset(), episode_reward=0.0)
        for step in run.steps(ITERATIONS):
            epsilon = max(0.1, 1 - step / ITERATIONS)
            if torch.rand(()) < epsilon:
                action = int(torch.randint(2, ()))
            else:
                action = int(net(k.observation).argmax())
            observation, reward, is_over = env.step(action)
            buffer.add(
                observation=k.observation,
                next=observation,
                action=action,
                reward=reward,
                over=float(is_over),
            )
            k.observation = env.reset() if is_over else observation
            k.episode_reward += reward
            if is_over:
                run.log(episode_reward=k.episode_reward)
                k.episode_reward = 0.0
            if step < FILL or step % TRAIN_EVERY:
                continue
            batch = run.batch(buffer.sample(BATCH))
            with torch.no_grad():
                value = target(batch["next"]).amax(1)
                goal = batch["reward"] + 0.95 * value * (1 - batch["over"])
            chosen = net(batch["observation"]).gather(1, batch["action"][:, None])[:, 0]
            loss = nn.functional.mse_loss(chosen, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
            if step % SYNC_EVERY == 0:
                target.load_state_dict(net.state_dict())
        print(f"{run.step} steps")


if __name__ == "__main__":
    main()
