"""DQN on Gymnasium's CartPole, with a replay buffer of NumPy arrays: `pip install gymnasium`.

    python examples/loops/cart_pole_dqn.py

The environment is part of the state, so a resume continues in the middle of an episode.
"""

from __future__ import annotations

import copy
import os

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import midstep

ITERATIONS = int(os.environ.get("STEPS", "2000"))
FILL, TRAIN_EVERY, SYNC_EVERY, BATCH, SIZE = 30, 2, 20, 16, 10_000


def main() -> None:
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    env.action_space.seed(1)
    shape = env.observation_space.shape
    buffer = {
        "observation": np.zeros((SIZE, *shape), dtype=np.float32),
        "next": np.zeros((SIZE, *shape), dtype=np.float32),
        "action": np.zeros(SIZE, dtype=np.int64),
        "reward": np.zeros(SIZE, dtype=np.float32),
        "over": np.zeros(SIZE, dtype=np.float32),
    }
    rng = np.random.default_rng(2)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    further = {"env": midstep.env_state(env), "target": target, **buffer}
    with midstep.attach(
        net, optimizer, extra_state=further, run_name="cart_pole_dqn", resume="auto"
    ) as run:
        k = run.keep(observation=env.reset(seed=3)[0], episode_reward=0.0)
        for step in run.steps(ITERATIONS):
            if rng.random() < max(0.1, 1 - step / ITERATIONS):
                action = env.action_space.sample()
            else:
                action = int(net(torch.as_tensor(k.observation)).argmax())
            observation, reward, terminated, truncated, _ = env.step(action)
            row = {
                "observation": k.observation,
                "next": observation,
                "action": action,
                "reward": reward,
                "over": terminated,
            }
            for name, value in row.items():
                buffer[name][step % SIZE] = value
            k.observation = observation
            k.episode_reward += float(reward)
            if terminated or truncated:
                run.log(episode_reward=k.episode_reward)
                k.observation, k.episode_reward = env.reset()[0], 0.0
            if step < FILL or step % TRAIN_EVERY:
                continue
            rows = rng.integers(0, min(step + 1, SIZE), BATCH)
            batch = run.batch({name: torch.from_numpy(each[rows]) for name, each in buffer.items()})
            with torch.no_grad():
                value = target(batch["next"]).amax(1)
                goal = batch["reward"] + 0.99 * value * (1 - batch["over"])
            chosen = net(batch["observation"]).gather(1, batch["action"][:, None])[:, 0]
            loss = nn.functional.mse_loss(chosen, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
            if step % SYNC_EVERY == 0:
                target.load_state_dict(net.state_dict())
        print(f"{run.step} steps")
    env.close()


if __name__ == "__main__":
    main()
